import ConvoyTestSupport
import Foundation
import Testing

/// Runs example programs in separate processes. The package manager builds them beside the tests.
enum ExampleProgram {
    struct Result {
        var status: Int32
        var lines: [String]
    }

    static func run(_ name: String, _ arguments: [String], in directory: URL) throws -> Result {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let program = tests.deletingLastPathComponent().appendingPathComponent(name)
        try #require(FileManager.default.isExecutableFile(atPath: program.path), "\(program.path) is missing")
        let ended = try ProcessRunner.run(program.path, arguments, directory: directory)
        return Result(status: ended.status, lines: ended.text.split(separator: "\n").map(String.init))
    }
}
