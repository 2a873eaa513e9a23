import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies
@testable import ConvoyDatabase

/// A file written with a wrong clock, or with times that no clock produces.
@Suite struct CookieClockTests {
    let directory: TemporaryDirectory
    var file: URL { directory.file("cookies.db") }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-cookies") }

    private func cookie(_ name: String) -> Cookie {
        Cookie(name: name, value: "x", domain: "example.org", expires: Date(timeIntervalSinceNow: 1000))
    }

    private func names() throws -> [String] { try CookieStore(file: file).cookies.map(\.name).sorted() }

    @Test("a cookie removed while the clock was ahead can be set again after the clock is corrected")
    func clockAhead() throws {
        let future = CookieTime.now() + 70 * 365 * 86_400 * CookieTime.second
        for removesAll in [true, false] {
            do {
                let store = CookieStore(CookieLimits(), file: file.path, keepsSessionCookies: false) { future }
                var cookie = cookie("a")
                cookie.expiryTime = future + 1000 * CookieTime.second
                store.setCookie(cookie)
                if removesAll { store.removeAll() } else { store.remove(cookie) }
                try store.flush()
            }
            let store = try CookieStore(file: file)
            store.setCookie(cookie("a"))
            store.setCookie(cookie("b"))
            try store.flush()
            #expect(try names() == ["a", "b"], "\(removesAll)")
            store.removeAll()
            try store.flush()
            #expect(try names() == [], "\(removesAll)")
        }
    }

    @Test(
        "numbers at the limits of their type cause no failures",
        arguments: [
            "UPDATE state SET revision = 9223372036854775807", "UPDATE state SET cleared = 9223372036854775807",
            "UPDATE state SET cleared = -9223372036854775807 - 1", "UPDATE state SET revision = -9223372036854775807 - 1",
            "UPDATE cookie SET revision = 9223372036854775807", "UPDATE cookie SET changed = 9223372036854775807",
            "UPDATE cookie SET changed = 253402300799000000", "UPDATE state SET cleared = 253402300799000000",
            "UPDATE cookie SET expires = -9223372036854775807 - 1",
            "UPDATE cookie SET created = 9223372036854775807, accessed = -9223372036854775807 - 1",
            "DELETE FROM state", "UPDATE cookie SET same_site = 9223372036854775807, flags = -1",
        ])
    func edges(_ change: String) throws {
        do {
            let store = try CookieStore(file: file)
            store.setCookie(cookie("old"))
            try store.flush()
        }
        do { try Database(path: file.path, schema: CookieFile.schema).run(change) }
        for name in ["a", "b"] {
            let store = try CookieStore(file: file)
            store.setCookie(cookie(name))
            try store.flush()
        }
        let found = try names()
        #expect(found.contains("a") && found.contains("b"), "\(found)")
    }
}
