import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCache

/// Requests that change a resource at the origin.
@Suite struct InvalidationTests {
    /// A request, its response, and the stored responses that remain: `/`, `/other`, `/third` on a.test, and `/` on
    /// others.
    static let cases: [(method: String, status: Int, fields: [(String, String)], left: [String])] = [
        ("POST", 200, [], ["/other", "elsewhere", "port", "secure"]),
        ("PUT", 204, [], ["/other", "elsewhere", "port", "secure"]),
        ("DELETE", 303, [], ["/other", "elsewhere", "port", "secure"]),
        ("UNKNOWN", 200, [], ["/other", "elsewhere", "port", "secure"]),
        ("POST", 404, [], ["/", "/other", "elsewhere", "port", "secure"]),
        ("POST", 500, [], ["/", "/other", "elsewhere", "port", "secure"]),
        ("OPTIONS", 200, [], ["/", "/other", "elsewhere", "port", "secure"]),
        ("HEAD", 200, [], ["/", "/other", "elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "/other")], ["elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "http://A.test:80/other#x")], ["elsewhere", "port", "secure"]),
        ("POST", 201, [("Content-Location", "other")], ["elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "http://b.test/")], ["/other", "elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "http://a.test:81/")], ["/other", "elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "https://a.test/")], ["/other", "elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "http://a.test@b.test/")], ["/other", "elsewhere", "port", "secure"]),
        ("POST", 201, [("Location", "::: %%%")], ["/other", "elsewhere", "port", "secure"]),
    ]

    static let addresses = [
        "/": "http://a.test/", "/other": "http://a.test/other", "elsewhere": "http://b.test/", "port": "http://a.test:81/",
        "secure": "https://a.test/",
    ]

    @Test(
        "a successful unsafe request invalidates the stored responses for its URL and for those in its response",
        arguments: 0..<cases.count)
    func invalidation(_ index: Int) async throws {
        let (method, status, fields, left) = Self.cases[index]
        let setting = RuleSetting()
        for _ in Self.addresses { setting.reply(200, [("Cache-Control", "max-age=1000")]) }
        setting.reply(status, fields.map { ($0.0, $0.1) }, "")
        for address in Self.addresses.values { _ = try await setting.get(address) }
        // A HEAD for a fresh response would not reach the origin.
        _ = try await setting.get(
            "http://a.test/", method == "HEAD" ? [("Cache-Control", "max-age=0")] : [], method: method)
        for (name, address) in Self.addresses {
            let isLeft = (try? await setting.get(address, policy: .storedOnly)) != nil
            #expect(isLeft == left.contains(name), "\(method) \(status) \(fields): \(name)")
        }
    }

    @Test("a response requested before an invalidation is not stored after it, but one requested later is")
    func inFlight() async throws {
        for isWide in [false, true] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=1000")], "new")
            let exchange = setting.cache.exchange(
                for: CacheRequest(
                    method: "GET", address: "http://a.test/", fields: [], policy: .protocolPolicy, partition: "",
                    hasBody: false))
            exchange.lookup { _ in }
            exchange.willSend()
            if isWide { setting.cache.removeAll() } else { _ = try await setting.get(method: "POST") }
            let head = CachedHead(statusCode: 200, fields: [("Cache-Control", "max-age=1000")])
            guard case .store(let writer) = exchange.receive(head) else {
                Issue.record("It is not stored.")
                return
            }
            writer.finish {}
            #expect(try await setting.source() == .network)
            #expect(try await setting.source() == .cache(.fresh))
        }
    }

    @Test("remove(for:) finds all spellings of a URL")
    func remove() async throws {
        for text in ["http://a.test/x", "HTTP://A.TEST:80/x#f", "http://user:word@a.test/x"] {
            let setting = RuleSetting()
            setting.reply(200, [("Cache-Control", "max-age=1000")])
            _ = try await setting.get("http://a.test/x")
            setting.cache.remove(for: try #require(URL(string: text)))
            #expect(try await setting.source("http://a.test/x") == .network, "\(text)")
        }
    }
}
