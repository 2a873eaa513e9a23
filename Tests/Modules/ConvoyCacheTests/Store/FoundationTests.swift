import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyCache

/// The cache's contents as Foundation's values.
@Suite struct FoundationTests {
    private func response(_ url: URL, _ fields: [String: String], _ body: String) throws -> CachedURLResponse {
        let head = try #require(HTTPURLResponse(url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: fields))
        return CachedURLResponse(
            response: head, data: Data(body.utf8), userInfo: ["a": "b", "n": 1], storagePolicy: .allowed)
    }

    @Test("a stored CachedURLResponse is returned, and served if RFC 9111 allows it")
    func roundTrip() async throws {
        let disk = try CacheDisk()
        for cache in [HTTPCache(), try disk.open()] {
            let url = try #require(URL(string: "http://a.test/x"))
            let request = URLRequest(url: url)
            #expect(await cache.store(try response(url, ["Cache-Control": "max-age=1000", "X": "1"], "text"), for: request))
            let found = try #require(await cache.cachedResponse(for: request))
            #expect(String(decoding: found.data, as: UTF8.self) == "text")
            #expect((found.response as? HTTPURLResponse)?.value(forHTTPHeaderField: "X") == "1")
            #expect(found.userInfo?["a"] as? String == "b")
            #expect(found.userInfo?["n"] == nil)
            #expect(await !cache.store(try response(url, ["Cache-Control": "no-store"], "other"), for: request))
            var post = request
            post.httpMethod = "POST"
            #expect(await !cache.store(try response(url, ["Cache-Control": "max-age=1000"], "other"), for: post))
            cache.remove(for: request)
            #expect(await cache.cachedResponse(for: request) == nil)
        }
    }

    @Test(
        "a response to a request with credentials is not stored, because it would be served to every user",
        arguments: [
            "Authorization", "Cookie", "X-Api-Key",
        ])
    func ofSomebody(_ field: String) async throws {
        let cache = HTTPCache()
        let url = try #require(URL(string: "http://a.test/x"))
        var request = URLRequest(url: url)
        request.setValue("ada", forHTTPHeaderField: field)
        #expect(await !cache.store(try response(url, ["Cache-Control": "max-age=1000"], "ada's"), for: request))
        #expect(await cache.cachedResponse(for: URLRequest(url: url)) == nil)
        #expect(await cache.store(try response(url, ["Cache-Control": "max-age=1000"], "all's"), for: URLRequest(url: url)))
        #expect(await cache.cachedResponse(for: request) == nil)
    }

    @Test("a response that is too large for memory is not returned")
    func large() async throws {
        let cache = HTTPCache()
        let url = try #require(URL(string: "http://a.test/x"))
        let text = String(repeating: "x", count: HTTPCache.cachedResponseLimit + 1)
        #expect(await cache.store(try response(url, ["Cache-Control": "max-age=1000"], text), for: URLRequest(url: url)))
        #expect(await cache.cachedResponse(for: URLRequest(url: url)) == nil)
    }
}
