import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyUploads

/// Kills an uploading process and restarts the server. The next process resumes the upload.
///
/// `CONVOY_UPLOAD_KILLS` sets the number of kills, `CONVOY_UPLOAD_RESTARTS` the number of server restarts, and
/// `CONVOY_UPLOAD_BYTES` the length of the file.
struct UploadKillTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static func number(_ name: String, _ usual: Int) -> Int { environment[name].flatMap { Int($0) } ?? usual }

    private static func program() throws -> String {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        return tests.deletingLastPathComponent().appendingPathComponent("StoreProgram").path
    }

    @Test func `at most 5% of the file is sent again after kills and server restarts`() throws {
        let kills = Self.number("CONVOY_UPLOAD_KILLS", 8), restarts = Self.number("CONVOY_UPLOAD_RESTARTS", 4)
        let count = Self.number("CONVOY_UPLOAD_BYTES", 4 << 20)
        let fixture = try UploadFixture(count)
        let server = try UploadServer()
        defer { server.stop() }
        var random = SplitMix64.printingSeed()
        // The numbers of received bytes at which the events happen.
        var events = (0..<(kills + restarts)).map { index in
            (at: Int.random(in: 0..<count, using: &random), isKill: index < kills)
        }
        events.sort { $0.at < $1.at }
        var sent = 0
        var process = try start(server, fixture)
        for event in events {
            try eventually(timeout: 60, "the upload to resume: \(output(process))") {
                server.state.withLock { $0.received } >= event.at || !process.isRunning
            }
            if event.isKill {
                kill(process.id, SIGKILL)
                process.stop()
                // Under load, the process may have finished before the kill. Another one would upload the file again.
                if output(process).hasSuffix("uploaded\n") { break }
                process = try start(server, fixture)
            } else {
                try server.restart()
            }
        }
        try eventually(timeout: 120, "the end") { !process.isRunning }
        #expect(output(process).hasSuffix("uploaded\n"), "\(output(process))")
        server.stop()
        try eventually { server.state.withLock { $0.connections.isEmpty } }
        sent = server.state.withLock { $0.wired - $0.heads }
        let whole = server.state.withLock { state in state.uploads.values.filter { $0.data == fixture.bytes } }
        #expect(whole.count == 1 && fixture.journals.isEmpty)
        let share = Double(sent) / Double(count)
        print("uploads: \(kills) kills and \(restarts) restarts, \(sent) of \(count) bytes sent, \(share)")
        #expect(share <= 1.05)
        #expect(server.state.withLock { $0.uploads.count } <= 1 + kills)
    }

    private func start(_ server: UploadServer, _ fixture: UploadFixture) throws -> ChildProcess {
        try ChildProcess(
            Self.program(), ["upload", server.url().absoluteString, fixture.file.path, "16384"],
            directory: fixture.directory.url, log: fixture.directory.file("log"))
    }

    private func output(_ process: ChildProcess) -> String { process.output }
}
