import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Runs with a low descriptor limit: files and connections wait until others are closed.
///
/// A run with a low limit mostly waits, so the runs of a test are concurrent, each with its own server and directory.
@Suite(.serialized) struct DescriptorLimitTests {
    private func forEach(_ limits: [Int], _ body: @escaping @Sendable (Workbench, Int) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for limit in limits { group.addTask { try await body(try Workbench(), limit) } }
            try await group.waitForAll()
        }
    }

    private static func run(
        _ options: String, urls: Int, limit: Int, in bench: Workbench
    ) async throws -> ToolProcess.Result {
        for number in 0..<urls { bench.server.route("/f\(number)", .pattern(count: 20_000)) }
        let list = (0..<urls).map { bench.url("/f\($0)") }.joined(separator: "\n")
        try bench.scratch.write(list, to: ".list")
        let command = "ulimit -n \(limit); exec $convoy get --json \(options) -i .list"
        return try await ToolProcess(command: command, in: bench.scratch.url).finished()
    }

    @Test func `all downloads complete even if they outnumber the descriptors`() async throws {
        try await forEach([20, 60, 80, 100, 256]) { bench, limit in
            let result = try await Self.run("-j 128", urls: 150, limit: limit, in: bench)
            #expect(result.status == 0, "\(limit): \(result.errors)")
            #expect(bench.scratch.names.count { $0.hasPrefix("f") } == 150, "\(limit)")
        }
    }

    @Test func `connections leave descriptors for files that open on their first byte`() async throws {
        try await forEach([20, 60, 100]) { bench, limit in
            bench.server.route("/f", .pattern(count: 20_000))
            let requests = (0..<150).map { #"{"id":"\#($0)","url":"\#(bench.url("/f"))","output":"f\#($0)"}"# }
            try bench.scratch.write(#"{"requests":[\#(requests.joined(separator: ","))]}"#, to: ".manifest")
            let command = "ulimit -n \(limit); exec $convoy run -q -j 128 .manifest"
            let result = try await ToolProcess(command: command, in: bench.scratch.url).finished()
            #expect(result.status == 0, "\(limit): \(result.errors)")
            #expect(bench.scratch.names.count { $0.hasPrefix("f") } == 150, "\(limit)")
        }
    }

    /// With few descriptors, some downloads may succeed; each of the others reports the missing descriptor.
    @Test func `if no descriptor becomes free, each failed download reports it`() async throws {
        try await forEach([9, 10, 11, 12, 14]) { bench, limit in
            let result = try await Self.run("-j 16", urls: 16, limit: limit, in: bench)
            #expect([0, 1, 4, 8].contains(result.status), "\(limit): \(result.errors)")
            let objects = try result.objects()
            #expect(objects.count == 16, "\(limit)")
            for object in objects where object["file"] as? String == nil {
                let text = try #require(object["error"] as? String, "\(object)")
                #expect(text.contains("Too many open files") || text.contains("file descriptor"), "\(limit): \(text)")
            }
        }
    }
}
