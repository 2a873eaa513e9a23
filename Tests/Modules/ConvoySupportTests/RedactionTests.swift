import Testing

@testable import ConvoySupport

@Suite(.serialized) struct RedactionTests {
    @Test(arguments: [
        ("http://ada:secret@h/x", "http://***@h/x"), ("http://ada:se@cret@h/x", "http://***@h/x"),
        ("http://ada:se/cret@h/x", "http://***@h/x"), ("http://:secret@h", "http://***@h"),
        ("ada:secret@h/x", "***@h/x"), ("//ada:secret@h", "//***@h"), ("http://ada@h/x", "http://***@h/x"),
        ("http://h:80/a@b", "http://h:80/a@b"), ("http://h/a:b@c", "http://h/a:b@c"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("http://ada:secret@[::1]/", "http://***@[::1]/"), ("", ""), ("//", "//"), ("x", "x"),
    ])
    func `a URL is shown without its user name and password`(_ url: String, _ shown: String) {
        #expect(Redaction.url(url) == shown)
        #expect(Redaction.url(shown) == shown)
    }

    @Test func `user names and passwords are removed from the URLs in a string`() {
        #expect(
            Redaction.text(#"no "http://a:b@c/", nor <ftp://d:e@f>: g@h // i:j@k"#)
                == #"no "http://***@c/", nor <ftp://***@f>: g@h // ***@k"#)
    }

    @Test(arguments: [
        ("http://h/?token=s3", "http://h/?token=***"),
        ("http://h/?a=b&Access_Token=s3&c", "http://h/?a=b&Access_Token=***&c"),
        ("http://h/?api-key=s3;key=s3", "http://h/?api-key=***;key=***"), ("http://h/?%74oken=s3", "http://h/?%74oken=***"),
        ("http://h/?user[password]=s3", "http://h/?user[password]=***"),
        ("http://h/?user%5Bpassword%5D=s3", "http://h/?user%5Bpassword%5D=***"),
        ("http://h/#access_token=s3&x=y", "http://h/#access_token=***&x=y"), ("http://h/?token", "http://h/?token"),
        ("http://h/?token=", "http://h/?token="), ("http://h/?tokens=7", "http://h/?tokens=7"),
        ("/login?code=s3", "/login?code=***"), ("?X-Amz-Signature=s3", "?X-Amz-Signature=***"),
        ("http://h/?to=http://i/?sig=s3", "http://h/?to=http://i/?sig=***"),
        ("http://h/?to=http%3A%2F%2Fi%2F%3Fsig%3Ds3&x=y%20z", "http://h/?to=***&x=y%20z"),
        ("http://h/?to=http%3A%2F%2Fa%3As3%40i", "http://h/?to=***"),
        ("http://h/?token=s3\u{301}&x=\u{301}y", "http://h/?token=***&x=\u{301}y"),
        ("http://a:s3@\u{301}h/", "http://***@\u{301}h/"), ("http://a:s3@h?token\u{301}=x", "http://***@h?token\u{301}=x"),
        ("http://h/http://a:s3@i/", "http://h/http://***@i/"), ("http://h/?to=http://a:s3@i/x", "http://h/?to=***"),
        ("http://h/?pwd=a s3", "http://h/?pwd=***"), ("http://h//a@b//c", "http://h//***@b//c"),
        ("http://h/?token=a=s3", "http://h/?token=***"), ("http://h/?pwd=\0s3", "http://h/?pwd=***"),
    ])
    func `sensitive query items are shown without their values`(_ url: String, _ shown: String) {
        #expect(Redaction.url(url) == shown)
        #expect(Redaction.url(shown) == shown)
    }

    @Test func `custom names replace the standard ones`() {
        let secrets = SecretClassifier(items: .init(["Who"]))
        #expect(Redaction.url("http://h/?who=s3&token=t", secrets) == "http://h/?who=***&token=t")
        #expect(Redaction.url("http://a@h/?token=t", SecretClassifier(items: .init([]))) == "http://***@h/?token=t")
        #expect(Redaction.items("a=1&password=s3") == "a=1&password=***")
    }

    @Test(arguments: [
        ("http:/ada:s3cret@h/p", "http:/***@h/p"), ("http:ada:s3cret@h", "http:***@h"),
        ("HTTPS:ada:s3cret@h", "HTTPS:***@h"),
        ("//ada:s3cret@h", "//***@h"), ("ada:s3cret@h", "***@h"), ("https:///ada:s3cret@h", "https:///***@h"),
        ("https:////ada:s3cret@h", "https:////***@h"), (#"http:\\ada:s3cret@h\p"#, #"http:\\***@h\p"#),
        (#"http:/\ada:s3cret@h"#, #"http:/\***@h"#), (#"\\ada:s3cret@h"#, #"\\***@h"#),
        ("http://ada:s3cret%40h/", "http://***%40h/"), ("foo http://ada:s3cret@h/", "foo http://***@h/"),
        ("ada:s3cret@h//x", "***@h//x"), ("/x?token=s3cret&to=http://h/", "/x?token=***&to=http://h/"),
        ("http://h/?to=http:/ada:s3cret@i", "http://h/?to=***"), ("http://h/?to=ada:s3cret@i", "http://h/?to=***"),
        ("http://h/?to=http%253A%252F%252Fa%253As3cret%2540i", "http://h/?to=***"),
        ("http://h/?mail=ada@h", "http://h/?mail=ada@h"),
        ("http://h/web/http:/ada:s3cret@i/", "http://h/web/http:/***@i/"), ("ftp:/ada:s3cret@h", "ftp:/***@h"),
        ("note:/ada:s3cret@h", "note:/***@h"), ("http://h/x;jsessionid=s3cret?a=b", "http://h/x;jsessionid=***?a=b"),
        ("http://h/x;v=1/y;token=s3cret/z", "http://h/x;v=1/y;token=***/z"),
        ("http://h/?%74oken=s3cret\u{FF}", "http://h/?%74oken=***"),
        ("http://h/?a=b#access_token=s3cret", "http://h/?a=b#access_token=***"),
        ("http://h/?token=a%26b=s3cret", "http://h/?token=***"),
        (
            "http://h/?Policy=s3cret&Signature=s3cret&Key-Pair-Id=s3cret",
            "http://h/?Policy=***&Signature=***&Key-Pair-Id=***"
        ),
        ("http://h/?code=404&status=ok", "http://h/?code=404&status=ok"), ("git@github.com:ada/x", "***@github.com:ada/x"),
        ("file:///home/ada/a@b", "file:///home/ada/a@b"),
    ])
    func `a URL in any spelling is shown without its secrets, alone and in a text`(_ url: String, _ shown: String) {
        #expect(Redaction.url(url) == shown)
        #expect(Redaction.url(shown) == shown)
        #expect(!Redaction.text("The URL \"\(url)\" is invalid.").contains("s3cret"))
        #expect(!Redaction.text(url).contains("s3cret"))
    }

    @Test func `redacting hostile text takes linear time`() {
        for unit in [
            "//a:b", "//", "/a:b@", "?a=", "%40", "http:", ";a=", "&to=%2F%2Fa", "\\", "eyJ.", "//a:b/%40", " a:b@",
            "http:[",
        ] {
            let text = String(repeating: unit, count: 10_000 / unit.utf8.count)
            for text in [text, "http://h/" + text, "@" + text, text + "@", text + "/@"] {
                let start = ContinuousClock.now
                _ = Redaction.url(text)
                _ = Redaction.text(text)
                // This measures real time: quadratic growth would take minutes, and linear growth takes milliseconds.
                #expect(ContinuousClock.now - start < .seconds(20), "\(unit)")
            }
        }
    }
}
