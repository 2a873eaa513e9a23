import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTestServer

struct OddNumberTests {
    static let none: [Double] = [-.infinity, -1e300, -1, 0, .nan]
    static let endless: [Double] = [1e11, 1e300, .infinity]

    @Test(arguments: none)
    func `invalid delays are ignored`(seconds: Double) throws {
        let server = try TestServer()
        server.route("GET", "/delayed", .text("x").delayed(seconds).delayedBody(seconds))
        server.route("GET", "/drip", .drip(Data("xyz".utf8), chunk: 1, interval: seconds))
        server.route("GET", "/chunks", .chunked(["x", "y"], every: seconds))
        server.route("GET", "/bandwidth", .text("x").bandwidth(bytesPerSecond: seconds < 0 ? .min : .max))
        for path in ["/delayed", "/drip", "/chunks", "/bandwidth"] {
            #expect(try RawClient(port: server.port).exchange("GET", path).status == 200)
        }
    }

    @Test(arguments: endless)
    func `very large delays do not end`(seconds: Double) async throws {
        let server = try TestServer()
        server.route("GET", "/delayed", .text("x").delayed(seconds))
        server.route("GET", "/quick", .text("quick"))
        let waiting = try RawClient(port: server.port)
        try waiting.send("GET /delayed HTTP/1.1\r\nHost: h\r\n\r\n")
        try await server.wait { $0.requestCount == 1 }
        #expect(try RawClient(port: server.port).exchange("GET", "/quick").status == 200)
        #expect(server.statistics.responseCount < 2, "the delayed response was sent")
        withExtendedLifetime(waiting) {}
    }

    @Test(arguments: none + endless)
    func `invalid timeouts expire immediately, and very large ones never do`(seconds: Double) async throws {
        let server = try TestServer()
        if Self.endless.contains(seconds) {
            Task {
                server.route("GET", "/x", .text("x"))
                _ = try RawClient(port: server.port).exchange("GET", "/x")
            }
            try await server.wait(timeout: seconds) { $0.requestCount == 1 }
        } else {
            await #expect(throws: TestServerError.self) {
                try await server.wait(timeout: seconds) { $0.requestCount == 1 }
            }
            await #expect(throws: TestServerError.self) {
                try await Task.detached { try Self.blockingWait(server, seconds) }.value
            }
        }
    }

    private static func blockingWait(_ server: TestServer, _ seconds: Double) throws {
        try server.wait(timeout: seconds) { $0.requestCount == 1 }
    }

    @Test func `extreme lengths and offsets of a file are served`() throws {
        let server = try TestServer()
        server.servePattern(count: .max, at: "/wrong", ranges: .wrongTotal)
        server.servePattern(count: .max, at: "/most", ranges: .atMost(.max))
        server.servePattern(count: .max, at: "/least", ranges: .atMost(.min))
        server.servePattern(count: .max, at: "/shifted", ranges: .wrongOffset(by: .max))
        let last = ["Range: bytes=\(Int.max - 5)-"]
        for path in ["/wrong", "/most", "/least"] {
            let response = try RawClient(port: server.port).exchange("GET", path, headers: last)
            #expect(response.status == 206)
            #expect(response.body.withUnsafeBytes { PatternBytes.matches($0, offset: .max - 5) })
        }
        // The body begins at the first byte and is practically endless, so read only the head.
        let shifted = try RawClient(port: server.port)
        try shifted.request("GET", "/shifted", headers: last)
        #expect(try shifted.response(toHead: true).status == 206)
        shifted.close()
        server.route("GET", "/end", TestServer.Response(body: .pattern(count: 1_000, offset: .max)))
        #expect(
            try RawClient(port: server.port).exchange("GET", "/end").body == PatternBytes.data(count: 1_000, offset: .max))
    }

    @Test func `extreme offsets of the pattern have defined bytes`() {
        #expect(PatternBytes.data(count: 3, offset: -1) == Data([0, 1, 2]))
        #expect(PatternBytes.data(count: 3, offset: .min) == Data([0, 1, 2]))
        let end = UInt8(Int.max % 251)
        #expect(PatternBytes.data(count: 2, offset: .max) == Data([end, end + 1]))
        #expect(PatternBytes.byte(at: .min) == 0 && PatternBytes.byte(at: .max) == end)
        #expect(Data([end, end + 1]).withUnsafeBytes { PatternBytes.matches($0, offset: .max) })
    }
}
