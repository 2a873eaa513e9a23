import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Downloads in separate processes.
enum DownloadProgram {
    static func path() throws -> String {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        return tests.deletingLastPathComponent().appendingPathComponent("StoreProgram").path
    }

    /// Starts a download, whose output goes to the log.
    static func start(_ url: URL, _ file: URL, _ options: [String] = [], log: URL) throws -> ChildProcess {
        try ChildProcess(
            path(), ["download", url.absoluteString, file.path] + options,
            directory: file.deletingLastPathComponent(), log: log)
    }

    /// Runs a download to its end. Returns its output.
    static func run(_ url: URL, _ file: URL, _ options: [String] = []) throws -> [String] {
        let result = try ProcessRunner.run(path(), ["download", url.absoluteString, file.path] + options)
        #expect(result.status == 0, "\(result.errorText)")
        return result.text.split(separator: "\n").map(String.init)
    }

    /// Returns whether a file contains the bytes of `TestServer.servePattern`.
    static func isPattern(_ file: URL, count: Int) throws -> Bool {
        let data = try Data(contentsOf: file, options: .alwaysMapped)
        return data.count == count && data.withUnsafeBytes { PatternBytes.matches($0, offset: 0) }
    }
}
