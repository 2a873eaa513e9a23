import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies

/// Limits, eviction and the order of cookies.
@Suite struct CookieJarTests {
    private let now: Int64 = 1_800_000_000 * CookieTime.second

    private func cookie(
        _ name: String, _ domain: String = "example.org", path: String = "/", isHostOnly: Bool = true,
        isSecure: Bool = false, used: Int64 = 0, expires: Int64? = nil
    ) -> Cookie {
        Cookie(
            nameBytes: Array(name.utf8), valueBytes: [0x78], domain: domain, isHostOnly: isHostOnly, path: path,
            isSecure: isSecure, isHTTPOnly: false, sameSite: .unspecified, expiryTime: expires,
            creationTime: now + used, accessTime: now + used)
    }

    @discardableResult
    private func insert(_ cookie: Cookie, _ jar: inout CookieJar, isOverTLS: Bool = true) throws -> CookieJar.Change {
        try jar.insert(cookie, isOverTLS: isOverTLS, changed: now, at: now)
    }

    private func names(_ jar: CookieJar) -> [String] { jar.all.map(\.cookie.name).sorted() }

    @Test(
        "a site with too many cookies loses expired ones first, then those without Secure, then the least recently used ones"
    )
    func perSite() throws {
        var jar = CookieJar(limits: CookieLimits(cookiesPerSite: 4))
        try insert(cookie("secure-old", isSecure: true, used: 1), &jar)
        try insert(cookie("plain-old", "www.example.org", used: 2), &jar)
        try insert(cookie("plain-new", "a.b.example.org", used: 9), &jar)
        try insert(cookie("secure-new", isSecure: true, used: 8), &jar)
        #expect(try insert(cookie("one", used: 10), &jar).evicted.map(\.name) == [Array("plain-old".utf8)])
        #expect(try insert(cookie("two", isSecure: true, used: 11), &jar).evicted.map(\.name) == [Array("plain-new".utf8)])
        #expect(try insert(cookie("three", isSecure: true, used: 12), &jar).evicted.map(\.name) == [Array("one".utf8)])
        // A cookie that is not Secure does not evict Secure cookies.
        let change = try insert(cookie("four", used: 13), &jar)
        #expect(!change.isStored)
        #expect(names(jar) == ["secure-new", "secure-old", "three", "two"])
        #expect(try insert(cookie("five", isSecure: true, used: 14), &jar).evicted.map(\.name) == [Array("secure-old".utf8)])
        #expect(jar.count == 4)
        var other = CookieJar(limits: CookieLimits(cookiesPerSite: 2))
        try insert(cookie("ends", isSecure: true, used: 20, expires: now + 1), &other)
        try insert(cookie("plain", used: 1), &other)
        let late = try other.insert(cookie("new", used: 2), isOverTLS: true, changed: now, at: now + 2)
        #expect(late.evicted.map(\.name) == [Array("ends".utf8)])
    }

    @Test("a domain with many names does not evict the cookies of other domains", arguments: [true, false])
    func hostileServer(_ hasManyHosts: Bool) throws {
        var jar = CookieJar(limits: CookieLimits(cookiesPerSite: 300, cookies: 200))
        for number in 0..<20 { try insert(cookie("a", "host.site\(number).example", used: 0), &jar) }
        for number in 0..<3000 {
            let host = hasManyHosts ? "n\(number).evil.example.net" : "evil.example.net"
            try insert(cookie("e\(number)", host, isSecure: true, used: Int64(number) + 1), &jar)
        }
        #expect(jar.count == 200)
        #expect(jar.all.count { $0.cookie.domain.hasSuffix(".example") } == 20)
        #expect(names(jar).contains("e2999"))
    }

    @Test("the total size is limited, and the site with the most bytes loses cookies")
    func bytes() throws {
        var jar = CookieJar(limits: CookieLimits(bytes: 20_000))
        try insert(cookie("small", "small.example"), &jar)
        for number in 0..<50 {
            var large = cookie("\(number)", "large.example", used: Int64(number))
            large.valueBytes = [UInt8](repeating: 0x78, count: 4000)
            try insert(large, &jar)
        }
        #expect(names(jar).contains("small"))
        #expect(names(jar).contains("49"))
        #expect(jar.all.reduce(0) { $0 + $1.size } <= 20_000)
    }

    @Test("cookies received without TLS neither replace nor hide Secure cookies")
    func leaveSecureAlone() throws {
        let secure = cookie("a", "www.example.org", path: "/x", isHostOnly: false, isSecure: true)
        let hiding = [
            cookie("a", "www.example.org", path: "/x"), cookie("a", "example.org", path: "/x/y", isHostOnly: false),
            cookie("a", "sub.www.example.org", path: "/x", isHostOnly: false),
        ]
        for other in hiding {
            var jar = CookieJar()
            try insert(secure, &jar)
            #expect(throws: CookieRefusal.hidesSecure) { try insert(other, &jar, isOverTLS: false) }
            #expect(jar.count == 1)
            try insert(other, &jar, isOverTLS: true)
        }
        let harmless = [
            cookie("b", "www.example.org", path: "/x"), cookie("a", "www.example.org", path: "/"),
            cookie("a", "www.example.org", path: "/xy"), cookie("a", "other.example.org", path: "/x"),
        ]
        for other in harmless {
            var jar = CookieJar()
            try insert(secure, &jar)
            #expect(try insert(other, &jar, isOverTLS: false).isStored)
        }
    }

    @Test("after random changes, the counts are correct, no limit is exceeded, and cookies are sent in order")
    func invariants() throws {
        var random = SplitMix64.printingSeed()
        let limits = CookieLimits(cookiesPerSite: 12, cookies: 40, bytes: 2000)
        var jar = CookieJar(limits: limits)
        let domains = [
            "example.org", "www.example.org", "a.www.example.org", "example.net", "x.co.uk", "localhost", "127.0.0.1",
        ]
        let paths = ["/", "/a", "/a/", "/a/b", "/c"]
        for step in 0..<5000 {
            let one = cookie(
                "n\(Int.random(in: 0..<20, using: &random))", domains.randomElement(using: &random) ?? "",
                path: paths.randomElement(using: &random) ?? "/", isHostOnly: Bool.random(using: &random),
                isSecure: Bool.random(using: &random), used: Int64(step),
                expires: Bool.random(using: &random) ? nil : now + Int64.random(in: -5...5, using: &random))
            switch Int.random(in: 0..<10, using: &random) {
            case 0: jar.remove(CookieKey(one))
            case 1:
                let request = CookieRequest(
                    place: CookiePlace(host: one.domain, path: "/a/b", isSecure: Bool.random(using: &random)), site: nil,
                    isSafeMethod: true)
                let sent = jar.cookies(for: request, at: now)
                for (first, second) in zip(sent, sent.dropFirst()) {
                    let (length, next) = (first.path.utf8.count, second.path.utf8.count)
                    #expect(length > next || (length == next && first.creationTime <= second.creationTime))
                }
                #expect(sent.allSatisfy { !$0.isSecure || request.place.isSecure })
                #expect(sent.allSatisfy { $0.domain == one.domain || !$0.isHostOnly })
                #expect(sent.allSatisfy { !$0.isExpired(at: now) })
            default: _ = try? insert(one, &jar, isOverTLS: Bool.random(using: &random))
            }
            let all = jar.all
            #expect(jar.count == all.count)
            #expect(Set(all.map { CookieKey($0.cookie) }).count == all.count)
            #expect(all.count <= limits.cookies && all.reduce(0) { $0 + $1.size } <= limits.bytes)
            let sites = Dictionary(grouping: all) { PublicSuffixes.site(of: $0.cookie.domain) }
            #expect(sites.values.allSatisfy { $0.count <= limits.cookiesPerSite })
        }
    }
}
