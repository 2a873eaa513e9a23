import Foundation

/// Conformance data about cookies: `http-state`, the cookie tests of `web-platform-tests`, dates and public suffixes.
package enum CookieSuite {
    /// The cookies set by a server, and the expected field of the next request.
    package struct Case: Decodable, Sendable, CustomStringConvertible {
        /// The name of the test; nil for tests of `web-platform-tests`.
        package var test: String?
        /// The values of the `Set-Cookie` fields, in order.
        package var setCookie: [String]
        /// The URL of the second request, relative to the first; nil for `/cookie-parser-result`.
        package var redirect: String?
        /// The value of the second request's `Cookie` field; nil for none.
        package var cookie: String?
        /// Whether `http-state` itself skips the test.
        package var disabled: Bool?
        /// A remark about the test.
        package var note: String?

        package var description: String { test ?? setCookie.joined(separator: " | ") }
    }

    /// A string, and the date that it represents in the format of HTTP; nil if it represents no date.
    package struct DateCase: Decodable, Sendable {
        package var test: String
        package var expected: String?
    }

    /// Whether the data is installed.
    package static var isPresent: Bool { ConformanceSuite.directory("cookies") != nil }
    package static let hint = ConformanceSuite.hint("cookies")

    /// Returns the 222 cases of `http-state`. The URL of the first request of each is ``firstURL(_:)``.
    package static func httpState() throws -> [Case] { try decoded("http-state.json") }

    /// Returns the 28 cases of `web-platform-tests`.
    package static func webPlatform() throws -> [Case] { try decoded("wpt-6265bis.json") }

    /// Returns the 70 dates of both collections.
    package static func dates() throws -> [DateCase] {
        try decoded("dates-examples.json") + decoded("dates-bsd-examples.json")
    }

    /// Returns hosts, each with its registrable domain; nil if it has none.
    package static func publicSuffixes() throws -> [[String?]] { try decoded("public-suffix.json") }

    /// Returns the URL of the first request of a case.
    package static func firstURL(_ test: String) -> String { "http://home.example.org:8888/cookie-parser?\(test)" }

    /// Returns the URL of the second request of a case, relative to the first.
    package static func secondReference(_ one: Case) -> String {
        one.redirect ?? "/cookie-parser-result?\(one.test ?? "")"
    }

    private static func decoded<Value: Decodable>(_ name: String) throws -> Value {
        guard let directory = ConformanceSuite.directory("cookies") else { throw CocoaError(.fileNoSuchFile) }
        return try JSONDecoder().decode(Value.self, from: Data(contentsOf: directory.appendingPathComponent(name)))
    }
}
