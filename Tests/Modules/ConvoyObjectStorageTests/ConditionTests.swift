import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyObjectStorage

/// Storing objects under a condition.
@Suite struct ConditionTests {
    private static let data = Data("some bytes".utf8)

    /// The entity tag of `data`.
    private static var tag: String {
        let digest = MessageDigest(.md5)
        digest.update(data)
        return "\"\(digest.value()?.hexadecimalString ?? "")\""
    }

    @Test func `the field of a condition is sent and signed`() async throws {
        let server = try TestServer()
        server.route("PUT", "/bucket/a", .status(200, headers: ["ETag": Self.tag]))
        let storage = try ObjectStorage(at: server)
        try await storage.put(Self.data, key: "a", condition: .isMissing)
        try await storage.put(Self.data, key: "a", condition: .hasEntityTag("1"))
        try await storage.put(Self.data, key: "a", condition: .hasEntityTag("\"1\""))
        #expect(server.requests.map { $0.headers["If-None-Match"] } == ["*", nil, nil])
        #expect(server.requests.map { $0.headers["If-Match"] } == [nil, "\"1\"", "\"1\""])
        for request in server.requests { #expect(try request.hasSignature()) }
    }

    @Test(arguments: ["", "a b", "a\r\nb: c", "\"\"", "ü", "a\"b"])
    func `an entity tag that cannot be sent is an error`(_ tag: String) async throws {
        let server = try TestServer()
        let storage = try ObjectStorage(at: server)
        let error = await storageError { try await storage.put(Self.data, key: "a", condition: .hasEntityTag(tag)) }
        #expect(error?.code == .invalidMetadata && server.requests.isEmpty)
    }

    @Test func `a condition that is not met is an error`() async throws {
        let server = try TestServer()
        server.route("PUT", "/bucket/a", errorDocument("PreconditionFailed", status: 412))
        server.route("HEAD", "/bucket/a", .status(200, headers: ["ETag": Self.tag, "Content-Length": "10"]))
        let storage = try ObjectStorage(at: server)
        let error = await storageError { try await storage.put(Self.data, key: "a", condition: .isMissing) }
        // The object may have the same contents, but this request has not stored it.
        #expect(error?.code == .preconditionFailed && server.requests.map(\.method) == ["PUT"])
    }

    @Test(arguments: [true, false])
    func `a condition that the lost first attempt has changed is met`(_ isSame: Bool) async throws {
        let server = try TestServer()
        server.route(
            "PUT", "/bucket/a",
            inTurn: [
                errorDocument("InternalError", status: 500).closing(), errorDocument("PreconditionFailed", status: 412),
            ])
        let stored = isSame ? Self.data : Data("other bytes".utf8)
        server.route("HEAD", "/bucket/a", .bytes(stored).header("ETag", isSame ? Self.tag : "\"1\""))
        let storage = try ObjectStorage(at: server)
        if isSame {
            let object = try await storage.put(Self.data, key: "a", condition: .isMissing)
            #expect(object.entityTag == Self.tag)
        } else {
            let error = await storageError { try await storage.put(Self.data, key: "a", condition: .isMissing) }
            #expect(error?.code == .preconditionFailed)
        }
    }
}
