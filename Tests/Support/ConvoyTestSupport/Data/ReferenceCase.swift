/// References as written by servers and people, with the expected requests, which are the same for a `Location` and for
/// a string that is passed to a manager.
public struct ReferenceCase: Sendable, CustomStringConvertible {
    /// The reference, relative to `http://HOST/dir/`; `HOST` stands for the server's address.
    public var reference: String
    /// The expected request target; nil if nothing may be requested.
    public var target: String?

    public var description: String { "\(reference.debugDescription) -> \(target ?? "nothing")" }

    /// Returns the reference to a server at this address, such as `127.0.0.1:8080`.
    public func reference(to host: String) -> String {
        reference.split(separator: "HOST", omittingEmptySubsequences: false).joined(separator: host)
    }

    init(_ reference: String, _ target: String?) {
        self.reference = reference
        self.target = Libcurl.raisesEscapes ? target.map(Self.raisingEscapes) : target
    }

    private static func raisingEscapes(_ target: String) -> String {
        target.split(separator: "%", omittingEmptySubsequences: false).enumerated().map { index, part in
            index == 0 ? String(part) : part.prefix(2).uppercased() + part.dropFirst(2)
        }.joined(separator: "%")
    }

    public static let all: [ReferenceCase] = paths + queries + dots + colons + whole + hostile + refused

    private static let paths = [
        ReferenceCase("plain", "/dir/plain"), ReferenceCase("a b", "/dir/a%20b"), ReferenceCase("a%20b", "/dir/a%20b"),
        ReferenceCase("a%20b c", "/dir/a%20b%20c"), ReferenceCase("a%2Fb c", "/dir/a%2Fb%20c"),
        ReferenceCase("a%2fb c", "/dir/a%2fb%20c"), ReferenceCase("100%", "/dir/100%25"),
        ReferenceCase("100%2", "/dir/100%252"), ReferenceCase("100%zz", "/dir/100%25zz"),
        ReferenceCase("100%2g%20", "/dir/100%252g%20"), ReferenceCase("%%41%", "/dir/%25%41%25"),
        ReferenceCase("%25 x", "/dir/%25%20x"), ReferenceCase("a%00b", "/dir/a%00b"),
        ReferenceCase("é", "/dir/%C3%A9"), ReferenceCase("%C3%A9 é", "/dir/%C3%A9%20%C3%A9"),
        ReferenceCase("e\u{301}", "/dir/e%CC%81"), ReferenceCase("日本/😀", "/dir/%E6%97%A5%E6%9C%AC/%F0%9F%98%80"),
        ReferenceCase("[x]", "/dir/%5Bx%5D"), ReferenceCase("a|b^c`d", "/dir/a%7Cb%5Ec%60d"),
        ReferenceCase("{a}<b>\"c\"", "/dir/%7Ba%7D%3Cb%3E%22c%22"), ReferenceCase("a\\b", "/dir/a%5Cb"),
        ReferenceCase("a\tb", "/dir/a%09b"), ReferenceCase("a\u{1}b\u{7F}", "/dir/a%01b%7F"),
        ReferenceCase("!$&'()*+,;=@-._~", "/dir/!$&'()*+,;=@-._~"), ReferenceCase("a//b", "/dir/a//b"),
        ReferenceCase("/", "/"), ReferenceCase("/a b", "/a%20b"), ReferenceCase("a/", "/dir/a/"),
    ]

    private static let queries = [
        ReferenceCase("?a=%20b c", "/dir/?a=%20b%20c"), ReferenceCase("?a=[1]", "/dir/?a=%5B1%5D"),
        ReferenceCase("q?a=b|c^d`e{f}\"g<h>i\\j", "/dir/q?a=b%7Cc%5Ed%60e%7Bf%7D%22g%3Ch%3Ei%5Cj"),
        ReferenceCase("q?a/b?c:d@e!$'()*,;=+", "/dir/q?a/b?c:d@e!$'()*,;=+"),
        ReferenceCase("q?a=é&b=%C3%A9", "/dir/q?a=%C3%A9&b=%C3%A9"), ReferenceCase("q?100%&%41", "/dir/q?100%25&%41"),
        ReferenceCase("q??", "/dir/q??"), ReferenceCase("q?a=1#frag ment", "/dir/q?a=1"),
        ReferenceCase("q#a#b?c", "/dir/q"), ReferenceCase("q?a b#%", "/dir/q?a%20b"),
        ReferenceCase("q?x=../y", "/dir/q?x=../y"), ReferenceCase("q?u=http://x/\\y", "/dir/q?u=http://x/%5Cy"),
    ]

    private static let dots = [
        ReferenceCase("./x", "/dir/x"), ReferenceCase("../x y", "/x%20y"), ReferenceCase("../../x", "/x"),
        ReferenceCase("a/./b", "/dir/a/b"), ReferenceCase("a/../b%20", "/dir/b%20"), ReferenceCase("..//a/./b", "//a/b"),
        ReferenceCase(".", "/dir/"), ReferenceCase("..", "/"), ReferenceCase("a/.", "/dir/a/"),
        ReferenceCase("a/..", "/dir/"), ReferenceCase("...", "/dir/..."), ReferenceCase("..;a/b", "/dir/..;a/b"),
    ]

    private static let colons = [
        ReferenceCase("./a:b", "/dir/a:b"), ReferenceCase("1:2", "/dir/1:2"), ReferenceCase(":x", "/dir/:x"),
        ReferenceCase("a/b:c", "/dir/a/b:c"), ReferenceCase("%61:b", "/dir/%61:b"), ReferenceCase("a b:c", "/dir/a%20b:c"),
        ReferenceCase("é:x", "/dir/%C3%A9:x"), ReferenceCase("?a:b", "/dir/?a:b"),
    ]

    private static let whole = [
        ReferenceCase("http://HOST/x y?z=[1]", "/x%20y?z=%5B1%5D"), ReferenceCase("HTTP://HOST/x", "/x"),
        ReferenceCase("http://HOST", "/"), ReferenceCase("http://HOST?a b", "/?a%20b"), ReferenceCase("http://HOST#f", "/"),
        ReferenceCase("http://HOST/a/../b", "/b"), ReferenceCase("http://HOST//x", "//x"),
        ReferenceCase("//HOST/n p", "/n%20p"),
        ReferenceCase("//HOST", "/"),
    ]

    /// References that another parser might resolve to a different host.
    private static let hostile = [
        ReferenceCase("\\\\evil.invalid", "/dir/%5C%5Cevil.invalid"), ReferenceCase("/\\evil.invalid", "/%5Cevil.invalid"),
        ReferenceCase("\\/evil.invalid/x", "/dir/%5C/evil.invalid/x"),
        ReferenceCase("/\t/evil.invalid", "/%09/evil.invalid"),
        ReferenceCase("ht\ttp://evil.invalid/", "/dir/ht%09tp://evil.invalid/"),
        ReferenceCase("/.//evil.invalid", "//evil.invalid"), ReferenceCase("..//evil.invalid", "//evil.invalid"),
        ReferenceCase("http://HOST/@evil.invalid", "/@evil.invalid"),
        ReferenceCase("http://HOST?@evil.invalid/", "/?@evil.invalid/"),
        ReferenceCase("http://HOST#@evil.invalid/", "/"),
    ]

    private static let refused = [
        "http:\\\\HOST/", "http:/\\HOST/", "http:/HOST/", "http:x", "http:", "http://", "http:///x", "//", "///x",
        "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://[::1", "http://a b/", "http://evil.invalid\\@HOST/",
        "http://HOST\\.evil.invalid/", "http://HOST\t/", "http://127.0.0.1%2f/", "http://127.0.0.1%00/", "http://:80/",
        "http:/.//HOST/", "//a|b/",
    ].map { ReferenceCase($0, nil) }
}
