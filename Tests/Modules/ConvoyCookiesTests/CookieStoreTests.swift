import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyCookies

@Suite struct CookieStoreTests {
    private let store = CookieStore()

    @Test("a cookie that is set again keeps its position, and an expired cookie removes it")
    func update() throws {
        let here = try url("http://example.org/")
        store.setCookies(["a=1", "b=2", "a=3"], from: here)
        #expect(try field(store, "http://example.org/") == "a=3; b=2")
        store.setCookies(["a=; Max-Age=0"], from: here)
        #expect(try field(store, "http://example.org/") == "b=2")
        store.setCookies(["a=1"], from: here)
        #expect(try field(store, "http://example.org/") == "b=2; a=1")
        #expect(store.cookies(for: here).map(\.name) == ["b", "a"])
    }

    @Test("a store is empty until a cookie is stored, and each change increases its revision")
    func emptiness() throws {
        #expect(store.isEmpty)
        let before = store.revision
        store.setCookies(["a=1; Domain=com"], from: try url("http://example.com/"))
        #expect(store.isEmpty)
        #expect(store.revision == before)
        store.setCookies(["a=1"], from: try url("http://example.com/"))
        #expect(!store.isEmpty)
        #expect(store.revision > before)
        store.removeAll()
        #expect(store.isEmpty)
        #expect(try field(store, "http://example.com/") == nil)
    }

    @Test("the acceptance handler can reject cookies, is called only for allowed cookies, and can use the store")
    func handler() throws {
        #expect(!store.asksBeforeAccepting)
        let asked = Locked<[String]>([])
        store.acceptanceHandler = { [store] cookie, url in
            asked.withLock { $0.append("\(cookie.name) \(url.host ?? "")") }
            _ = store.cookies
            return cookie.name != "bad"
        }
        #expect(store.asksBeforeAccepting)
        store.setCookies(["good=1", "bad=2", "no=3; Domain=com"], from: try url("http://example.com/"))
        #expect(store.cookies.map(\.name) == ["good"])
        #expect(asked.withLock { $0 } == ["good example.com", "bad example.com"])
        store.take([Array("bad=2".utf8)], from: try place("http://example.com/"), url: try url("http://example.com/"))
        #expect(store.cookies.map(\.name) == ["good", "bad"])
        store.acceptanceHandler = nil
        #expect(!store.asksBeforeAccepting)
    }

    @Test("a cookie that is set manually is subject to the same rules")
    func setByHand() throws {
        #expect(store.setCookie(Cookie(name: "a", value: "b", domain: ".Example.ORG.", isHostOnly: false)))
        #expect(try field(store, "http://www.example.org/") == "a=b")
        let bad = [
            Cookie(name: "a;b", value: "", domain: "x.org"), Cookie(name: "a", value: "b\r\nX: y", domain: "x.org"),
            Cookie(name: "a=", value: "b", domain: "x.org"), Cookie(name: " a", value: "b", domain: "x.org"),
            Cookie(name: "a", value: "b", domain: ""), Cookie(name: "a", value: "b", domain: "co.uk", isHostOnly: false),
            Cookie(name: "a", value: "b", domain: "x.org", path: "x"), Cookie(name: "", value: "", domain: "x.org"),
            Cookie(name: "a", value: "b", domain: "x.org", sameSite: .none),
            Cookie(name: "__host-a", value: "b", domain: "x.org"),
            Cookie(name: "a", value: String(repeating: "b", count: 5000), domain: "x.org"),
        ]
        for cookie in bad { #expect(!store.setCookie(cookie), "\(cookie)") }
        let cookie = Cookie(name: "a", value: "b", domain: "example.org", isSecure: true)
        #expect(!store.setCookie(cookie, for: try url("http://example.org/")))
        #expect(!store.setCookie(cookie, for: try url("https://other.org/")))
        #expect(!store.setCookie(cookie, for: try url("file:///x")))
        #expect(store.setCookie(cookie, for: try url("https://example.org/")))
        let distant = Cookie(name: "far", value: "b", domain: "far.org", expires: .distantFuture)
        #expect(store.setCookie(distant))
        let expires = try #require(store.cookies(for: try url("http://far.org/")).first?.expires)
        #expect(abs(expires.timeIntervalSinceNow - 400 * 86_400) < 60)
        for date in [Date(timeIntervalSince1970: .nan), Date(timeIntervalSince1970: -.infinity), .distantPast] {
            #expect(store.setCookie(Cookie(name: "far", value: "", domain: "far.org", expires: date)))
            #expect(try field(store, "http://far.org/") == nil)
        }
    }

    @Test("each removal method removes exactly the specified cookies")
    func removals() throws {
        let here = try url("http://example.org/")
        store.setCookies(["a=1; Max-Age=100", "b=2"], from: here)
        let middle = Date(timeIntervalSince1970: (store.cookies.last?.creation.timeIntervalSince1970 ?? 0) + 0.000_001)
        store.setCookie(Cookie(name: "c", value: "3", domain: "example.org", creation: middle.addingTimeInterval(1)))
        store.removeCookies(since: middle)
        #expect(store.cookies.map(\.name) == ["a", "b"])
        store.endSession()
        #expect(store.cookies.map(\.name) == ["a"])
        store.remove(try #require(store.cookies.first))
        #expect(store.isEmpty)
    }

    @Test("neither a description nor a dump shows the value")
    func secrets() throws {
        let cookie = Cookie(name: "session", value: "hunter2", domain: "example.org", isSecure: true)
        store.setCookie(cookie)
        var dumped = ""
        dump(cookie, to: &dumped)
        dump(store.cookies, to: &dumped)
        for text in ["\(cookie)", String(reflecting: cookie), "\(store.cookies)", "\([cookie])", dumped, "\(store)"] {
            #expect(!text.contains("hunter2"))
        }
        #expect("\(cookie)" == "session; domain=example.org (this host only); path=/; secure; session")
    }

    @Test("the Foundation value keeps everything that it can represent")
    func foundation() throws {
        let end = Date(timeIntervalSince1970: 1_900_000_000)
        let cookie = Cookie(
            name: "a", value: "é b", domain: "example.org", isHostOnly: false, path: "/x", isSecure: true, isHTTPOnly: true,
            sameSite: .strict, expires: end)
        var back = Cookie(try #require(cookie.httpCookie))
        #expect(back.sameSite == .unspecified)
        (back.sameSite, back.creation, back.lastAccess) = (.strict, cookie.creation, cookie.lastAccess)
        #expect(back == cookie)
        let host = try #require(Cookie(name: "a", value: "b", domain: "example.org").httpCookie)
        #expect(host.domain == "example.org")
        #expect(Cookie(host).isHostOnly)
        #expect(store.setCookie(host, for: try url("http://example.org/")))
        #expect(store.httpCookies.map(\.name) == ["a"])
    }

    @Test("eight threads that use one store leave it consistent")
    func threads() throws {
        let store = CookieStore(limits: CookieLimits(cookiesPerSite: 50, cookies: 100))
        store.acceptanceHandler = { cookie, _ in cookie.name != "n13" }
        let base = try url("https://example.org/")
        let place = try place("https://example.org/")
        let seeds = (0..<8).map { UInt64($0) }
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            var random = SplitMix64(seed: seeds[thread])
            for step in 0..<400 {
                let name = "n\(Int.random(in: 0..<60, using: &random))"
                switch Int.random(in: 0..<8, using: &random) {
                case 0: store.removeCookies(since: Date())
                case 1: store.endSession()
                case 2: _ = store.cookies(for: base)
                case 3: store.setCookie(Cookie(name: name, value: "x", domain: "t\(thread).example.net"))
                case 4: store.takeAsking([Array("\(name)=\(step); Max-Age=100".utf8)], from: place, url: base)
                case 5: _ = store.field(for: CookieRequest(place: place, site: nil, isSafeMethod: true))
                default: store.take([Array("\(name)=\(step)".utf8)], from: place, url: base)
                }
            }
        }
        let cookies = store.cookies
        #expect(cookies.count <= 100)
        #expect(store.isEmpty == cookies.isEmpty)
        #expect(Set(cookies.map { CookieKey($0) }).count == cookies.count)
    }
}
