/// The result of this library where it differs from the expectation of `http-state`, which follows RFC 6265, with the
/// reason.
package struct CookieDeviation: Sendable {
    /// The value of the second request's `Cookie` field; nil for none.
    package var cookie: String?
    package var reason: String

    private init(_ cookie: String?, _ reason: String) {
        (self.cookie, self.reason) = (cookie, reason)
    }

    /// The deviations by the names of the cases.
    package static let ofHTTPState: [String: CookieDeviation] = {
        let nameless = "section 5.6: without an equals sign or a name it is a cookie without a name, not an error"
        let control = "section 5.6, step 1: a field with a control character is ignored as a whole, not cut off there"
        return [
            "0004": CookieDeviation("foo", nameless),
            "0021": CookieDeviation("a=b; x; c=d", nameless),
            "0023": CookieDeviation("foo", nameless),
            "0024": CookieDeviation("foo", nameless),
            "0025": CookieDeviation("foo", nameless),
            "0026": CookieDeviation("foo", nameless),
            "0027": CookieDeviation("bar", nameless),
            "0028": CookieDeviation("foo", nameless),
            "chromium0009": CookieDeviation("BLAHHH", nameless),
            "chromium0010": CookieDeviation("\"BLA\\\"HHH\"", nameless),
            "chromium0012": CookieDeviation("ABC", nameless),
            "mozilla0012": CookieDeviation("test=\"fubar! = foo; five", nameless),
            "mozilla0014": CookieDeviation("six", nameless),
            "mozilla0015": CookieDeviation("seven", nameless),
            "mozilla0016": CookieDeviation("eight", nameless),
            "mozilla0017": CookieDeviation("eight; test=six", nameless),
            "name0017": CookieDeviation("a=bar", nameless),
            "name0023": CookieDeviation("foo", nameless),
            "name0025": CookieDeviation("==a=bar", nameless),
            "name0028": CookieDeviation("a", nameless),
            "name0031": CookieDeviation("\"foo", nameless),
            "name0032": CookieDeviation("\"foo\\\"bar", nameless),
            "name0033": CookieDeviation("aaa", nameless),
            "disabled-chromium0022": CookieDeviation(nil, control),
            "disabled-chromium0023": CookieDeviation(nil, control),
            "disabled-path0029": CookieDeviation(
                nil, "section 5.1.4: paths are compared byte by byte, as in path0028"),
            "optional-domain0042": CookieDeviation(
                "foo=bar", "section 5.6.3: the last Domain counts, and an empty one means the host only"),
        ]
    }()
}
