import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies

/// External test suites that specify the cookies to send after given `Set-Cookie` fields.
@Suite(.enabled(if: CookieSuite.isPresent, Comment(rawValue: CookieSuite.hint)))
struct CookieSuiteTests {
    private func answer(_ one: CookieSuite.Case) throws -> String? {
        // A date before the dates in 2019 that the tests use.
        let store = CookieStore(
            CookieLimits(), file: nil, keepsSessionCookies: false, now: { 1_546_300_800 * CookieTime.second })
        let first = try url(CookieSuite.firstURL(one.test ?? ""))
        let place = try place(first.absoluteString)
        store.take(one.setCookie.map { Array($0.utf8) }, from: place, url: first)
        let second = try #require(URL(string: CookieSuite.secondReference(one), relativeTo: first)?.absoluteURL)
        return store.field(
            for: CookieRequest(place: try ConvoyCookiesTests.place(second.absoluteString), site: nil, isSafeMethod: true))
    }

    @Test("http-state: cookies are sent back, except in the cases changed by RFC 6265bis")
    func httpState() throws {
        let cases = try CookieSuite.httpState()
        #expect(cases.count == 222)
        var (same, different) = (0, 0)
        for one in cases {
            let name = try #require(one.test)
            let answer = try answer(one)
            if let deviation = CookieDeviation.ofHTTPState[name] {
                #expect(answer == deviation.cookie, "\(name) \(deviation.reason)")
                #expect(answer != one.cookie, "\(name) no longer deviates")
                different += 1
            } else {
                #expect(answer == one.cookie, "\(name) \(one.setCookie)")
                same += answer == one.cookie ? 1 : 0
            }
        }
        print("http-state: \(same) of \(cases.count) as expected, \(different) changed by RFC 6265bis")
        #expect(different == CookieDeviation.ofHTTPState.count)
    }

    @Test("web-platform-tests: cookies are sent back")
    func webPlatform() throws {
        let cases = try CookieSuite.webPlatform()
        #expect(cases.count == 28)
        for one in cases {
            let answer = try answer(one)
            // A field cannot contain a line feed. If it did, the entire field would be ignored (section 5.6, step 1).
            #expect(answer == (one.setCookie == ["test=13\nZYX"] ? nil : one.cookie), "\(one)")
        }
    }

    @Test("dates in all formats are parsed as in browsers")
    func dates() throws {
        let cases = try CookieSuite.dates()
        #expect(cases.count == 70)
        for one in cases {
            #expect(CookieDate.parse(one.test.utf8).map { HTTPDate.string($0) } == one.expected, "\(one.test)")
        }
    }

    @Test("registrable domains can have cookies, but public suffixes cannot")
    func publicSuffixes() throws {
        let pairs = try CookieSuite.publicSuffixes()
        #expect(pairs.count == 78)
        for pair in pairs {
            guard let host = pair[0] else { continue }
            let normal = HostName.normalized(host)
            let found = normal.flatMap { PublicSuffixes.registrableDomain(of: $0) }
            #expect(found == pair[1].flatMap { HostName.normalized($0) }, "\(host)")
        }
    }
}
