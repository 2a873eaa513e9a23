import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Processes that are killed during a download.
///
/// `CONVOY_DOWNLOAD_KILLS` sets the number of kills (3); if it is set, the file is larger and slower.
@Suite struct DownloadKillTests {
    private static let rounds = ProcessInfo.processInfo.environment["CONVOY_DOWNLOAD_KILLS"].flatMap { Int($0) }
    private let count = rounds ?? 3
    private let size = (rounds == nil ? 24 : 64) << 20
    private let rate = 64 << 20
    /// The maximum size of one write of a part. A write may precede a synchronization that does not include it.
    private let largestWrite = 1 << 20

    struct Case: Sendable, CustomTestStringConvertible {
        let segments: Int
        let restartsServer: Bool
        var testDescription: String { "\(segments) segments\(restartsServer ? ", and the server is restarted" : "")" }
    }

    @Test(arguments: [
        Case(segments: 1, restartsServer: false), Case(segments: 4, restartsServer: false),
        Case(segments: 1, restartsServer: true), Case(segments: 4, restartsServer: true),
    ])
    func `the next process resumes a killed download without fetching claimed bytes again`(_ test: Case) async throws {
        var random = SplitMix64.printingSeed()
        var server = try serve(test, port: 0)
        var (killed, continued, fetched, most) = (0, 0, 0.0, 0.0)
        for round in 0..<count {
            let directory = try TemporaryDirectory(prefix: "convoy-kill")
            let counter = try TemporaryDirectory(prefix: "convoy-kill")
            let (file, counts) = (directory.file("file"), counter.file("counter"))
            let options = ["--segments", "\(test.segments)", "--counter", counts.path]
            server.forgetRequests()
            let process = try DownloadProgram.start(server.url("/file"), file, options, log: counter.file("log"))
            // The start time of a program depends on the load of the machine.
            try await waitUntil("its first request") { !server.requests.isEmpty || !process.isRunning }
            // The kills are spread evenly from before the first byte to about the last.
            let duration = Double(size) / Double(rate)
            let share = (Double(round) + Double.random(in: 0..<1, using: &random)) / Double(count)
            let moment = share * (duration * 1.05 + 0.05)
            await Self.kill(process, after: moment)
            process.stop()
            if process.exitStatus == 128 + SIGKILL { killed += 1 }
            let lacks = try Self.numbers(in: counts)
            let hasPartial = FileManager.default.fileExists(atPath: file.path + ".convoypart")
            if test.restartsServer {
                let port = server.port
                server.stop()
                server = try serve(test, port: port)
            }
            let isThere = FileManager.default.fileExists(atPath: file.path)
            if isThere { #expect(try DownloadProgram.isPattern(file, count: size), "round \(round)") }
            let said = try DownloadProgram.run(server.url("/file"), file, options)
            #expect(said == [isThere ? "file exists" : "downloaded"], "round \(round)")
            #expect(try DownloadProgram.isPattern(file, count: size), "round \(round)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path) == ["file"], "round \(round)")
            let bytes = try Self.numbers(in: counts).written
            // The duration of a synchronization, and the number of bytes written in the meantime, depend on the disk.
            let allowed = size + lacks.written - lacks.claimed + test.segments * largestWrite
            #expect(bytes >= size && bytes <= allowed, "round \(round), killed after \(moment) s, \(lacks)")
            let ratio = Double(bytes) / Double(size)
            (fetched, most) = (fetched + ratio, max(most, ratio))
            if hasPartial { continued += 1 }
        }
        print(
            "kills: \(test.testDescription): \(killed) of \(count), \(continued) in the middle; fetched "
                + "\(fetched / Double(count)) of the file on average, \(most) at most")
        // The test is meaningful only if enough downloads were resumed.
        #expect(continued > 0 && continued >= count / 3)
        server.stop()
    }

    /// Returns the number of bytes written to the partial file, and the number claimed by its journal.
    private static func numbers(in counter: URL) throws -> (written: Int, claimed: Int) {
        // A process that was killed before it began has not created them.
        guard let bytes = try? Data(contentsOf: counter) else { return (0, 0) }
        try #require(bytes.count == 16)
        return bytes.withUnsafeBytes { bytes in
            func number(_ offset: Int) -> Int { Int(bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
            return (number(0), number(8))
        }
    }

    private func serve(_ test: Case, port: UInt16) throws -> TestServer {
        var configuration = TestServer.Configuration()
        configuration.port = port
        let server = try TestServer(configuration)
        let share = rate / test.segments
        server.servePattern(
            count: size, at: "/file", etag: "\"1\"", lastModified: Date(timeIntervalSince1970: 1_000_000_000)
        ) { _, response in response.bandwidth(bytesPerSecond: share) }
        return server
    }

    private static func kill(_ process: ChildProcess, after seconds: Double) async {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().asyncAfter(deadline: .now() + seconds) {
                if process.isRunning { Foundation.kill(process.id, SIGKILL) }
                continuation.resume()
            }
        }
    }
}
