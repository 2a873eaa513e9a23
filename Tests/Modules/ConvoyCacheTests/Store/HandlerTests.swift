import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyCache

/// Users' handlers, which decide what is stored.
@Suite struct HandlerTests {
    private static let fields: CacheClient.Fields = [("Cache-Control", "max-age=1000"), ("Content-Encoding", "gzip")]

    @Test("a slow handler does not delay others")
    func slow() async throws {
        let cache = HTTPCache()
        let goOn = DispatchSemaphore(value: 0)
        cache.responseHandler = { candidate in
            if candidate.url?.path == "/slow" { goOn.wait() }
            return candidate
        }
        let client = CacheClient(cache) { _, _, _ in CacheClient.Reply(fields: Self.fields) }
        // Call more slow handlers than libdispatch has threads for a while.
        let slow = Task {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<20 { group.addTask { _ = try await client.get("http://a.test/slow") } }
                try await group.waitForAll()
            }
        }
        for _ in 0..<2 { _ = try await client.get("http://a.test/fast") }
        #expect(try await client.get("http://a.test/fast").source == .cache(.fresh))
        for _ in 0..<20 { goOn.signal() }
        try await slow.value
        #expect(try await client.get("http://a.test/slow").source == .cache(.fresh))
    }

    @Test("a handler receives the body, and rejects or changes what is stored", arguments: [100, 50_000, 200_000])
    func changes(_ length: Int) async throws {
        let disk = try CacheDisk()
        let body = [UInt8](repeating: 5, count: length)
        for cache in [HTTPCache(), try disk.open()] {
            let client = CacheClient(cache) { _, _, _ in CacheClient.Reply(fields: Self.fields, body: body) }
            cache.responseHandler = { candidate in
                #expect(candidate.length == length)
                #expect(candidate.data == Data(body))
                let made = candidate.cachedURLResponse
                let head = made?.response as? HTTPURLResponse
                #expect(made?.data == Data(body) && head?.statusCode == 200 && head?.url == candidate.url)
                #expect(head?.value(forHTTPHeaderField: "Cache-Control") == candidate.fields.first?.value)
                let stream = candidate.makeBodyStream()
                stream?.open()
                var buffer = [UInt8](repeating: 0, count: 10)
                #expect(stream?.read(&buffer, maxLength: 10) == 10)
                stream?.close()
                switch candidate.url?.path {
                case "/refused": return nil
                case "/invalid":
                    var candidate = candidate
                    candidate.fields.append(("X", "a\r\nY: b"))
                    return candidate
                default:
                    var candidate = candidate
                    candidate.fields = [("Cache-Control", "max-age=5"), ("X", "1"), ("Content-Length", "999")]
                    candidate.userInfo = ["key": "value"]
                    if candidate.url?.path == "/replaced" { candidate.replaceBody(Data(repeating: 6, count: length + 1)) }
                    return candidate
                }
            }
            for path in ["refused", "invalid"] {
                for _ in 0..<2 { #expect(try await client.get("http://a.test/\(path)").source == .network) }
            }
            for path in ["kept", "replaced"] {
                _ = try await client.get("http://a.test/\(path)")
                let seen = try await client.get("http://a.test/\(path)")
                #expect(seen.source == .cache(.fresh))
                #expect(seen.value("X") == "1")
                #expect(seen.body == (path == "kept" ? body : [UInt8](repeating: 6, count: length + 1)))
                if path == "replaced" { #expect(seen.value("Content-Length") == "\(length + 1)") }
            }
        }
    }

    @Test("the handler of a request takes precedence over that of the cache")
    func own() async throws {
        let cache = HTTPCache()
        cache.responseHandler = { _ in nil }
        let client = CacheClient(cache) { _, _, _ in CacheClient.Reply(fields: Self.fields) }
        _ = try await client.get("http://a.test/", handler: { $0 })
        #expect(try await client.get("http://a.test/").source == .cache(.fresh))
    }
}
