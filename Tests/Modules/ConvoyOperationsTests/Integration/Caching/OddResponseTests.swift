import ConvoyCache
import ConvoyCookies
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that invalid, truncated or unusual responses leave either correct data in the cache, or nothing.
@Suite struct OddResponseTests: CachingSuite {
    let fixture: CachingFixture

    init() throws { fixture = try CachingFixture() }

    private static let fresh = TestServer.Response.pattern(count: 50_000).header("Cache-Control", "max-age=600")

    enum Broken: CaseIterable {
        case truncatedEncoding, damagedEncoding, tooMuchAnnounced, chunksCutOff, resetWithoutLength, cutWithoutLength
        case resetWithLength, twoLengths, lengthAndChunks

        var response: TestServer.Response {
            get throws {
                switch self {
                case .truncatedEncoding, .damagedEncoding:
                    var packed = try ProcessRunner.run("/bin/gzip", ["-c"], input: PatternBytes.data(count: 50_000)).output
                    if self == .truncatedEncoding { packed.removeLast(9) } else { packed[packed.count - 6] ^= 255 }
                    return .bytes(packed).header("Content-Encoding", "gzip").header("Cache-Control", "max-age=600")
                case .tooMuchAnnounced: return fresh.contentLength(50_001)
                case .chunksCutOff: return fresh.framed(.chunked).truncated(afterBytes: 20_000)
                case .resetWithoutLength: return fresh.framed(.closeDelimited).resets(afterBytes: 20_000)
                case .cutWithoutLength:
                    // An encoded body declares its end, unlike a body that ends with the connection.
                    let packed = try ProcessRunner.run("/bin/gzip", ["-c"], input: PatternBytes.data(count: 50_000)).output
                    return .bytes(packed).header("Content-Encoding", "gzip").header("Cache-Control", "max-age=600")
                        .framed(.closeDelimited).truncated(afterBytes: packed.count / 2)
                case .resetWithLength: return fresh.resets(afterBytes: 20_000)
                case .twoLengths:
                    return fresh.header("Content-Length", "10").header("Content-Length", "50000")
                case .lengthAndChunks:
                    return fresh.header("Content-Length", "10").framed(.chunked).truncated(afterBytes: 20_000)
                }
            }
        }
    }

    @Test("a truncated or contradictory response is not stored", arguments: Broken.allCases)
    func broken(_ broken: Broken) async throws {
        server.route("GET", "/x", inTurn: [try broken.response, Self.fresh])
        await #expect(throws: URLError.self) { try await get("x") }
        #expect(cache.stores == 0)
        let second = try await get("x")
        #expect(second.cacheUse == nil && second.responseData == PatternBytes.data(count: 50_000))
        #expect(try await get("x").cacheUse == .fresh)
    }

    @Test("a validated response survives a truncated one", arguments: Broken.allCases)
    func brokenAnswer(_ broken: Broken) async throws {
        let first = TestServer.Response.text("first").header("ETag", "\"1\"").header("Cache-Control", "no-cache")
        server.route("GET", "/x", inTurn: [first, try broken.response, .status(304, headers: ["ETag": "\"1\""]), first])
        #expect(try await get("x").responseString == "first")
        await #expect(throws: URLError.self) { try await get("x") }
        // The stored response may have been removed, but it never contains part of the broken one.
        #expect(try await get("x").responseString == "first" || server.requests.last?.headers["If-None-Match"] == nil)
    }

    @Test("trailers are not part of a stored head")
    func trailers() async throws {
        server.route(
            "GET", "/x",
            Self.fresh.framed(.chunked).trailers([
                "ETag": "\"evil\"", "Cache-Control": "no-store", "Set-Cookie": "t=1; Path=/", "X-Trailer": "1",
            ]))
        for use in [CacheUse?.none, .fresh] {
            let operation = try await get("x")
            #expect(operation.cacheUse == use && operation.responseData == PatternBytes.data(count: 50_000))
            for name in ["ETag", "X-Trailer", "Set-Cookie"] {
                #expect(operation.response?.value(forHTTPHeaderField: name) == nil, "\(name)")
            }
            #expect(operation.response?.value(forHTTPHeaderField: "Cache-Control") == "max-age=600")
        }
        #expect(manager.cookieStore?.cookies.isEmpty == true)
    }

    @Test("interim responses do not affect caching or cookies", arguments: [100, 102, 103, 199])
    func interim(status: Int) async throws {
        server.route(
            "GET", "/x",
            Self.fresh.preceded(
                by: status,
                headers: ["Cache-Control": "no-store", "Set-Cookie": "i=1; Path=/", "ETag": "\"i\"", "Vary": "*"]
            ).preceded(by: status, headers: ["Link": "</a>; rel=preload"]))
        for use in [CacheUse?.none, .fresh] {
            let operation = try await get("x")
            #expect(operation.cacheUse == use && operation.responseData == PatternBytes.data(count: 50_000))
            #expect(operation.response?.value(forHTTPHeaderField: "ETag") == nil)
            #expect(operation.response?.value(forHTTPHeaderField: "Link") == nil)
        }
        #expect(manager.cookieStore?.cookies.isEmpty == true)
    }

    @Test("a body without a length is stored when the connection ends, even if it is empty")
    func closeDelimited() async throws {
        server.route("GET", "/x", Self.fresh.framed(.closeDelimited))
        server.route("GET", "/empty", .text("").header("Cache-Control", "max-age=600"))
        server.route("GET", "/204", .status(204, headers: ["Cache-Control": "max-age=600"]))
        for use in [CacheUse?.none, .fresh] {
            let operation = try await get("x")
            #expect(operation.cacheUse == use && operation.responseData == PatternBytes.data(count: 50_000))
            for path in ["empty", "204"] {
                let empty = try await get(path)
                #expect(empty.cacheUse == use && empty.responseData?.isEmpty != false, "\(path)")
            }
        }
    }

    @Test("the cache key includes the query but not the fragment")
    func fragment() async throws {
        server.route("GET", "/x") { .text($0.query ?? "none").header("Cache-Control", "max-age=600") }
        #expect(try await get("x#one").responseString == "none")
        #expect(try await get("x#two").cacheUse == .fresh)
        #expect(try await get("x?a=1#two").responseString == "a=1")
        #expect(server.requests.count == 2)
    }

    @Test("a hit that is too large for memory fails like a response from the network")
    func limit() async throws {
        server.route("GET", "/x", Self.fresh)
        _ = try await get("x")
        var errors: [URLError.Code?] = []
        for cache in [cache, nil] {
            let operation = try manager.makeOperation(.get, "x")
            operation.cache = cache
            operation.maximumBodySize = 10_000
            manager.enqueue(operation)
            try? await operation.finished()
            errors.append((operation.error as? URLError)?.code)
        }
        #expect(errors[0] != nil && errors[0] == errors[1])
        #expect(try await get("x").cacheUse == .fresh)
    }
}
