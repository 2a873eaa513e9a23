import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// A loopback server and a directory in which `convoy get` runs.
struct Workbench {
    let server: TestServer
    let scratch: Scratch
    /// Lets go what ``hold(count:at:after:)`` holds back.
    let gate = TestServer.Gate()

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
    }

    func url(_ path: String) -> String { server.url(path).absoluteString }

    /// Serves the same bytes for all paths that begin so, with an entity tag.
    func serve(_ count: Int, at path: String) -> Data {
        let data = PatternBytes.data(count: count)
        server.serve(data, at: path, etag: "\"1\"")
        return data
    }

    /// Serves so many bytes, but only the first of them until the gate opens.
    func hold(count: Int, at path: String, after first: Int) {
        server.route(path, .pattern(count: count).heldBody(by: gate, afterBytes: first))
    }

    func get(_ arguments: String..., input: String = "") async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get"] + arguments, in: scratch.url, input: input)
    }

    /// The tries of a request that came with a range, as `bytes=5-`.
    func ranges(_ path: String) -> [String?] { server.requests("GET", path).map { $0.headers["Range"] } }

    /// Waits until there are bytes of a file that is not whole.
    func waitForBytes(of name: String, count: Int = 1) async throws {
        try await waitUntil("\(count) bytes of \(name)") {
            (try? scratch.data("\(name).convoypart"))?.count ?? 0 >= count
        }
    }
}
