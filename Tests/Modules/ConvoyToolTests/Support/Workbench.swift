import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// A loopback server and a directory in which `convoy get` runs.
struct Workbench {
    let server: TestServer
    let scratch: Scratch
    /// Releases the responses of ``hold(count:at:after:)``.
    let gate = TestServer.Gate()

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
    }

    func url(_ path: String) -> String { server.url(path).absoluteString }

    /// Serves the same bytes for all paths with the given prefix, with an entity tag.
    func serve(_ count: Int, at path: String) -> Data {
        let data = PatternBytes.data(count: count)
        server.serve(data, at: path, etag: "\"1\"")
        return data
    }

    /// Serves the given number of bytes, but only the first part until the gate opens.
    func hold(count: Int, at path: String, after first: Int) {
        server.route(path, .pattern(count: count).heldBody(by: gate, afterBytes: first))
    }

    func get(_ arguments: String..., input: String = "") async throws -> ToolProcess.Result {
        try await ToolProcess.run(["get"] + arguments, in: scratch.url, input: input)
    }

    /// Returns the `Range` values, such as `bytes=5-`, of the attempts of a request.
    func ranges(_ path: String) -> [String?] { server.requests("GET", path).map { $0.headers["Range"] } }

    /// Waits until an incomplete file has the given number of bytes.
    func waitForBytes(of name: String, count: Int = 1) async throws {
        try await waitUntil("\(count) bytes of \(name)") {
            (try? scratch.data("\(name).convoypart"))?.count ?? 0 >= count
        }
    }
}
