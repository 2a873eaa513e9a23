import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySession
import ConvoyTestServer
import Foundation
import Testing

/// Patches as bodies of requests and responses.
@Suite struct JSONPatchMessageTests {
    private let text = #"[{"op":"replace","path":"/n","value":12345678901234567.890}]"#

    private func check(_ manager: some HTTPManager, _ server: TestServer) async throws {
        let patch = try patch(text)
        try await manager.patch("document", body: patch)
        let request = try #require(server.requests.last)
        #expect(request.headers["Content-Type"] == "application/json-patch+json" && request.text == text)

        try await manager.patch("document", body: JSONMergePatch(["a": nil]), headers: ["If-Match": "\"7\""])
        let merge = try #require(server.requests.last)
        #expect(merge.headers["Content-Type"] == "application/merge-patch+json" && merge.text == #"{"a":null}"#)
        #expect(merge.headers["If-Match"] == "\"7\"")

        try await manager.patch("document", body: patch, headers: ["Content-Type": "application/x-patch"])
        #expect(server.requests.last?.headers["Content-Type"] == "application/x-patch")

        #expect(try await manager.get("patch") == patch)
        #expect(try await manager.get("merge", as: JSONMergePatch.self).json == ["a": nil])
        #expect(try await manager.get("plain") == patch)
    }

    private func makeServer() throws -> TestServer {
        let server = try TestServer()
        server.route("PATCH", "/document", .status(204))
        server.route("GET", "/patch", .bytes(Data(text.utf8), type: JSONPatch.mediaType))
        server.route("GET", "/merge", .bytes(Data(#"{"a":null}"#.utf8), type: JSONMergePatch.mediaType))
        server.route("GET", "/plain", .json(text: text))
        server.route("GET", "/other", .json(text: #"{"a":1}"#))
        server.route("GET", "/broken", .bytes(Data("[".utf8), type: JSONPatch.mediaType))
        server.route("GET", "/deep", .bytes(Data(String(repeating: "[", count: 1000).utf8), type: JSONPatch.mediaType))
        server.route("GET", "/gone", .bytes(Data(#"{"why":"gone"}"#.utf8), type: JSONPatch.mediaType, status: 410))
        return server
    }

    @Test func `both managers send and receive patches with their media type and all digits`() async throws {
        let server = try makeServer()
        try await check(HTTPRequestOperationManager(baseURL: server.url("/")), server)
        let session = HTTPSessionManager(baseURL: server.url("/"))
        try await check(session, server)
        session.invalidate(cancellingTasks: true)
    }

    @Test func `decoding a response that is not a patch fails`() async throws {
        let server = try makeServer()
        let manager = HTTPRequestOperationManager(baseURL: server.url("/"))
        await #expect(throws: JSONPatchError.self) { try await manager.get("other", as: JSONPatch.self) }
        await #expect(throws: JSONSyntaxError.self) { try await manager.get("broken", as: JSONPatch.self) }
        await #expect(throws: JSONSyntaxError.self) { try await manager.get("deep", as: JSONPatch.self) }
        do {
            _ = try await manager.get("gone", as: JSONPatch.self)
            Issue.record("the body of a 410 was decoded as a patch")
        } catch {
            #expect((error as? HTTPError)?.statusCode == 410)
        }
    }

    @Test func `the response serializer creates patches`() async throws {
        let server = try makeServer()
        let manager = HTTPRequestOperationManager(baseURL: server.url("/"))
        manager.responseSerializer = JSONPatchResponseSerializer()
        #expect(try await manager.get("patch").responseObject as? JSONPatch == patch(text))
        await #expect(throws: (any Error).self) { try await manager.get("plain") }
        manager.responseSerializer.acceptableContentTypes = nil
        #expect(try await manager.get("plain").responseObject as? JSONPatch == patch(text))
        manager.responseSerializer = JSONMergePatchResponseSerializer()
        #expect(try await manager.get("merge").responseObject as? JSONMergePatch == ["a": nil])
    }
}
