import ConvoyCache
import ConvoyCookies
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The cache combined with HEAD requests, partial responses, conditional requests and unsafe methods.
@Suite struct CachePartialTests: CachingSuite {
    let fixture: CachingFixture

    init() throws { fixture = try CachingFixture() }

    // MARK: Heads, parts and conditions

    @Test func `HEAD is served from a stored GET response, but not vice versa`() async throws {
        server.route("/x", .text("body").header("Cache-Control", "max-age=600").header("ETag", "\"1\""))
        let head = try await get("/x") { $0.httpMethod = "HEAD" }
        #expect(head.cacheUse == nil && head.responseData?.isEmpty != false)
        #expect(try await get("/x").cacheUse == nil)
        let again = try await get("/x") { $0.httpMethod = "HEAD" }
        #expect(again.cacheUse == .fresh && again.responseData?.isEmpty != false && again.statusCode == 200)
        #expect(again.response?.value(forHTTPHeaderField: "Content-Length") == "4")
        #expect(server.requests.map(\.method) == ["HEAD", "GET"])
    }

    @Test func `a conditional request of the caller is served from the cache`() async throws {
        server.route("/x", .text("body").header("Cache-Control", "max-age=600").header("ETag", "\"1\""))
        manager.responseSerializer.acceptableStatusCodes = nil
        try await get("/x")
        let same = try await get("/x") { $0.setValue("\"1\"", forHTTPHeaderField: "If-None-Match") }
        #expect(same.statusCode == 304 && same.responseData?.isEmpty != false && same.cacheUse == .fresh)
        let other = try await get("/x") { $0.setValue("\"2\"", forHTTPHeaderField: "If-None-Match") }
        #expect(other.statusCode == 200 && other.responseString == "body")
    }

    @Test func `a range of a stored response is served, and the stored response stays complete`() async throws {
        server.servePattern(count: 100_000, at: "/file", etag: "\"f\"") { _, response in
            response.header("Cache-Control", "max-age=600")
        }
        try await get("/file")
        manager.responseSerializer.acceptableStatusCodes = nil
        let ranges: [(String, Range<Int>)] = [
            ("bytes=0-0", 0..<1), ("bytes=99999-", 99_999..<100_000), ("bytes=-7", 99_993..<100_000),
            ("bytes=500-999999", 500..<100_000),
        ]
        for (value, range) in ranges {
            let part = try await get("/file") { $0.setValue(value, forHTTPHeaderField: "Range") }
            #expect(part.statusCode == 206 && part.cacheUse == .fresh, "\(value)")
            #expect(part.responseData == PatternBytes.data(count: range.count, offset: range.lowerBound), "\(value)")
            let header = part.response?.value(forHTTPHeaderField: "Content-Range")
            #expect(header == "bytes \(range.lowerBound)-\(range.upperBound - 1)/100000", "\(value)")
        }
        for value in ["bytes=100000-", "bytes=-0", "bytes=5-1", "items=0-1", "bytes=0-1,5-6", "bytes=18446744073709551616-"]
        {
            let part = try await get("/file") { $0.setValue(value, forHTTPHeaderField: "Range") }
            #expect([200, 416].contains(part.statusCode ?? 0), "\(value) \(part.statusCode ?? 0)")
            #expect(part.statusCode != 200 || part.responseData == PatternBytes.data(count: 100_000), "\(value)")
        }
        let whole = try await get("/file")
        #expect(whole.cacheUse == .fresh && whole.responseData == PatternBytes.data(count: 100_000))
    }

    @Test(
        "a response about a range, a condition, a proxy or a limit is not served to other requests",
        arguments: [407, 412, 416, 428, 429, 431, 511])
    func momentary(status: Int) async throws {
        server.route("GET", "/x") { request in
            request.headers["If-Match"] != nil
                ? .status(status, headers: ["Cache-Control": "max-age=600"])
                : .text("body").header("Cache-Control", "max-age=600")
        }
        _ = try? await get("/x") {
            $0.setValue("\"0\"", forHTTPHeaderField: "If-Match")
            $0.setValue("bytes=900-", forHTTPHeaderField: "Range")
        }
        #expect(try await get("/x").responseString == "body")
        _ = try? await get("/x") { $0.setValue("\"0\"", forHTTPHeaderField: "If-Match") }
        let again = try await get("/x")
        #expect(again.responseString == "body" && again.cacheUse == .fresh)
    }

    @Test("a paused download resumes from the cache if it has the same version", arguments: [true, false])
    func resumed(isSame: Bool) async throws {
        // Open the gate last, because a transfer continues briefly after its operation has been paused.
        let gate = TestServer.Gate()
        defer { gate.open() }
        let second = TestServer.Response.pattern(count: 3_000_000, offset: isSame ? 0 : 100)
            .header("ETag", isSame ? "\"1\"" : "\"2\"").header("Cache-Control", "max-age=600")
        server.route(
            "GET", "/file",
            inTurn: [
                .pattern(count: 3_000_000).header("ETag", "\"1\"").header("Cache-Control", "max-age=600")
                    .header("Accept-Ranges", "bytes").heldBody(by: gate, afterBytes: 1_000_000),
                second,
            ])
        let operation = manager.enqueue(try manager.makeOperation(.get, "file"))
        try await waitUntil("bytes") { operation.progress.completedUnitCount > 0 }
        operation.pause()
        try await waitUntil("the pause") { operation.state == .paused }
        #expect(try await get("/file").cacheUse == nil)
        operation.resume()
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: 3_000_000, offset: isSame ? 0 : 100))
        #expect(server.requests.count == 2, "\(server.requests.map { $0.headers["Range"] ?? "whole" })")
        #expect(try await get("/file").responseData == PatternBytes.data(count: 3_000_000, offset: isSame ? 0 : 100))
    }

    @Test func `a download resumed from the network stores no partial body as complete`() async throws {
        // Open the gate last, because a transfer continues briefly after its operation has been paused.
        let gate = TestServer.Gate()
        defer { gate.open() }
        let isFirst = Locked(true)
        server.servePattern(count: 2_000_000, at: "/file", etag: "\"1\"") { _, response in
            let response = response.header("Cache-Control", "max-age=600")
            let isHeld = isFirst.withLock { first in
                defer { first = false }
                return first
            }
            return isHeld ? response.heldBody(by: gate, afterBytes: 500_000) : response
        }
        let operation = manager.enqueue(try manager.makeOperation(.get, "file"))
        try await waitUntil("bytes") { operation.progress.completedUnitCount > 0 }
        operation.pause()
        try await waitUntil("the pause") { operation.state == .paused }
        operation.resume()
        try await operation.finished()
        #expect(operation.responseData == PatternBytes.data(count: 2_000_000))
        #expect(server.requests.last?.headers["Range"] != nil)
        #expect(try await get("/file").responseData == PatternBytes.data(count: 2_000_000))
    }

    // MARK: Unsafe requests

    @Test func `an upload invalidates the stored response, unless it is rejected`() async throws {
        server.route("GET", "/x", .text("body").header("Cache-Control", "max-age=600"))
        server.route("PUT", "/x", inTurn: [.text("no").status(500), .text("yes")])
        try await get("/x")
        for (number, use) in [CacheUse?.some(.fresh), nil].enumerated() {
            var request = URLRequest(url: server.url("/x"))
            request.httpMethod = "PUT"
            request.httpBodyStream = InputStream(data: Data(repeating: 1, count: 200_000))
            let operation = manager.enqueue(manager.makeOperation(request: request))
            try? await operation.finished()
            #expect(operation.statusCode == (number == 0 ? 500 : 200))
            #expect(try await get("/x").cacheUse == use)
        }
    }
}
