import Testing

@testable import ConvoySupport

@Suite(.serialized) struct RedactionTests {
    @Test(arguments: [
        ("http://ada:secret@h/x", "http://ada:***@h/x"), ("http://ada:se@cret@h/x", "http://ada:***@h/x"),
        ("http://ada:se/cret@h/x", "http://ada:***@h/x"), ("http://:secret@h", "http://:***@h"),
        ("ada:secret@h/x", "ada:***@h/x"), ("//ada:secret@h", "//ada:***@h"), ("http://ada@h/x", "http://ada@h/x"),
        ("http://h:80/a@b", "http://h:80/a@b"), ("http://h/a:b@c", "http://h/a:b@c"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("http://ada:secret@[::1]/", "http://ada:***@[::1]/"), ("", ""), ("//", "//"), ("x", "x"),
    ])
    func `a URL is shown without its password`(_ url: String, _ shown: String) {
        #expect(Redaction.url(url) == shown)
        #expect(Redaction.url(shown) == shown)
    }

    @Test func `the URLs in a text are shown without their passwords`() {
        #expect(
            Redaction.text(#"no "http://a:b@c/", nor <ftp://d:e@f>: g@h // i:j@k"#)
                == #"no "http://a:***@c/", nor <ftp://d:***@f>: g@h // i:j@k"#)
    }
}
