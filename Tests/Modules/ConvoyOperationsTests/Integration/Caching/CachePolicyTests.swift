import ConvoyCache
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// The cache policies of requests and their effects.
@Suite struct CachePolicyTests: CachingSuite {
    let fixture: CachingFixture

    init() throws {
        fixture = try CachingFixture()
        let count = Locked(0)
        server.route("GET", "/counted") { request in
            if request.headers["If-None-Match"] == "\"v\"" {
                return TestServer.Response(status: 304, headers: ["ETag": "\"v\"", "X-New": "yes"])
            }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return .text("\(number)").header("Cache-Control", "max-age=600").header("ETag", "\"v\"")
        }
        server.route("GET", "/stale") { request in
            if request.headers["If-None-Match"] == "\"v\"" {
                return TestServer.Response(status: 304, headers: ["ETag": "\"v\"", "X-New": "yes"])
            }
            return .text("old").header("Cache-Control", "max-age=0").header("ETag", "\"v\"")
        }
    }

    @Test func `reloading ignores the stored response and replaces it`() async throws {
        try await get("/counted")
        for policy in [URLRequest.CachePolicy.reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData] {
            let operation = try await get("/counted") { $0.cachePolicy = policy }
            #expect(operation.cacheUse == nil)
        }
        #expect(server.requests("/counted").allSatisfy { $0.headers["If-None-Match"] == nil })
        #expect(try await get("/counted").responseString == "3")
    }

    @Test func `revalidating checks whether the stored response is current`() async throws {
        try await get("/counted")
        let operation = try await get("/counted") { $0.cachePolicy = .reloadRevalidatingCacheData }
        #expect(operation.cacheUse == .validated && operation.responseString == "1" && operation.statusCode == 200)
        #expect(operation.response?.value(forHTTPHeaderField: "X-New") == "yes")
        #expect(server.requests("/counted").last?.headers["If-None-Match"] == "\"v\"")
        let other = try await get("/counted") { $0.setValue("no-cache", forHTTPHeaderField: "Cache-Control") }
        #expect(other.cacheUse == .validated && server.requests("/counted").count == 3)
    }

    @Test func `a stored response can be requested regardless of its age`() async throws {
        try await get("/stale")
        let operation = try await get("/stale") { $0.cachePolicy = .returnCacheDataElseLoad }
        #expect(operation.cacheUse == .ignoringAge && operation.responseString == "old")
        #expect(try await get("/stale") { $0.cachePolicy = .returnCacheDataDontLoad }.responseString == "old")
        #expect(server.requests("/stale").count == 1)
        #expect(try await get("/counted") { $0.cachePolicy = .returnCacheDataElseLoad }.responseString == "1")
    }

    @Test func `if loading is forbidden and nothing is stored, the operation fails without a request`() async throws {
        let error = await #expect(throws: URLError.self) {
            try await get("/counted") { $0.cachePolicy = .returnCacheDataDontLoad }
        }
        #expect(error?.code == .resourceUnavailable)
        manager.cache = nil
        let other = await #expect(throws: URLError.self) {
            try await get("/counted") { $0.cachePolicy = .returnCacheDataDontLoad }
        }
        #expect(other?.code == .resourceUnavailable)
        #expect(server.requests.isEmpty)
    }

    @Test func `a 304 refreshes the stored response and is not visible to the caller`() async throws {
        try await get("/stale")
        let second = try await get("/stale")
        #expect(second.statusCode == 200 && second.responseString == "old" && second.cacheUse == .validated)
        #expect(second.response?.value(forHTTPHeaderField: "X-New") == "yes")
    }

    @Test func `a conditional request of the caller receives its own 304`() async throws {
        try await get("/stale")
        manager.responseSerializer.acceptableStatusCodes = [304]
        let operation = try await get("/stale") { $0.setValue("\"v\"", forHTTPHeaderField: "If-None-Match") }
        #expect(operation.statusCode == 304 && operation.responseData?.isEmpty == true)
    }

    @Test func `a response that varies by a field is served only for the same field`() async throws {
        server.route("GET", "/vary") { request in
            .text(request.headers["Accept-Language"] ?? "none").header("Vary", "Accept-Language")
                .header("Cache-Control", "max-age=600")
        }
        func language(_ name: String) async throws -> HTTPRequestOperation {
            try await get("/vary") { $0.setValue(name, forHTTPHeaderField: "Accept-Language") }
        }
        #expect(try await language("de").responseString == "de")
        #expect(try await language("fr").responseString == "fr")
        let again = try await language("de")
        #expect(again.responseString == "de" && again.cacheUse == .fresh)
    }

    @Test func `a response that varies by cookie is served only for the same cookie`() async throws {
        server.route("GET", "/vary") { request in
            .text(request.headers["Cookie"] ?? "none").header("Vary", "Cookie").header("Cache-Control", "max-age=600")
        }
        server.route("/login", .text("").header("Set-Cookie", "u=ada; Path=/"))
        #expect(try await get("/vary").responseString == "none")
        try await get("/login")
        #expect(try await get("/vary").responseString == "u=ada")
        #expect(try await get("/vary").cacheUse == .fresh)
    }

    @Test func `an unsafe request invalidates the stored response`() async throws {
        try await get("/counted")
        server.route("POST", "/counted", .text("changed"))
        try await get("/counted") {
            $0.httpMethod = "POST"
            $0.httpBody = Data("x".utf8)
        }
        #expect(try await get("/counted").responseString == "2")
    }

    @Test func `a partial body is not mistaken for the complete one`() async throws {
        server.servePattern(count: 10_000, at: "/file", etag: "\"f\"")
        manager.responseSerializer.acceptableStatusCodes = nil
        let part = try await get("/file") { $0.setValue("bytes=0-99", forHTTPHeaderField: "Range") }
        #expect(part.statusCode == 206 && part.responseData?.count == 100)
        #expect(try await get("/file").responseData == PatternBytes.data(count: 10_000))
    }

    @Test func `redirects are stored like other responses, and each one is evaluated again`() async throws {
        server.route("/moved", .text("").status(301).header("Location", "/counted").header("Cache-Control", "max-age=600"))
        let first = try await get("/moved")
        let second = try await get("/moved")
        #expect(first.responseString == "1" && second.responseString == "1" && second.cacheUse == .fresh)
        #expect(server.requests.count == 2)
        #expect(second.redirects.count == 1 && second.redirects == first.redirects)
        let asked = Locked(0)
        let kept = try manager.makeOperation(.get, "moved")
        kept.redirectHandler = { _, _, _ in
            asked.withLock { $0 += 1 }
            return nil
        }
        manager.enqueue(kept)
        try? await kept.finished()
        #expect(asked.withLock { $0 } == 1 && kept.statusCode == 301 && kept.cacheUse == .fresh)
        #expect(server.requests.count == 2)
    }

    @Test func `a redirect is stored only with its complete body`() async throws {
        let moved = TestServer.Response.text("moved").status(301).header("Location", "/counted")
            .header("Cache-Control", "max-age=600")
        for (path, response, isStored) in [
            ("/whole", moved, true), ("/whole-to-the-end", moved.framed(.closeDelimited), true),
            ("/cut", moved.contentLength(100).truncated(afterBytes: 5), false),
            ("/stopped", moved.contentLength(100).stalls(afterBytes: 5), false),
            ("/stopped-in-a-chunk", moved.framed(.chunked).stalls(afterBytes: 3), false),
        ] {
            server.route(path, response)
            for _ in 0..<2 { #expect(try await get(path).statusCode == 200, "\(path)") }
            #expect(server.requests(path).count == (isStored ? 1 : 2), "\(path)")
        }
    }

    @Test func `a loop of stored redirects ends`() async throws {
        server.route("/a", .text("").status(301).header("Location", "/b").header("Cache-Control", "max-age=600"))
        server.route("/b", .text("").status(301).header("Location", "/a").header("Cache-Control", "max-age=600"))
        for _ in 0..<2 {
            let error = await #expect(throws: URLError.self) { try await get("/a") }
            #expect(error?.code == .httpTooManyRedirects)
        }
        // The failed response is not stored.
        #expect(server.requests("/a").count == 1 && server.requests("/b").count == 2)
    }
}
