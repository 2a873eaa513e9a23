import Testing

@testable import ConvoySupport

struct HTTPSyntaxTests {
    @Test func `a token consists of letters, digits and fifteen symbols`() {
        let signs = "!#$%&'*+-.^_`|~"
        for byte in UInt8.min ... .max {
            let character = Character(Unicode.Scalar(byte))
            let isToken = character.isASCII && (character.isLetter || character.isNumber || signs.contains(character))
            #expect(HTTPSyntax.isToken([byte]) == isToken, "\(byte)")
        }
        #expect(!HTTPSyntax.isToken("") && !HTTPSyntax.isToken("é") && HTTPSyntax.isToken("Content-Type"))
    }

    @Test func `a field value has no control characters except tabs`() {
        #expect(HTTPSyntax.isFieldValue("") && HTTPSyntax.isFieldValue("a\tb é"))
        for text in ["a\r\nb", "\u{0}", "\u{7F}", "\n"] { #expect(!HTTPSyntax.isFieldValue(text)) }
    }

    @Test func `field names ignore the case of ASCII letters only`() {
        #expect(HTTPSyntax.isSameField("ETag", "etag"))
        #expect(!HTTPSyntax.isSameField("ETag", "ETags") && !HTTPSyntax.isSameField("\u{212A}", "k"))
        #expect(!HTTPSyntax.isSameField("a@", "a`"))
    }

    @Test func `only spaces and tabs are trimmed from a value`() {
        #expect(HTTPSyntax.trimmed(" \ta b\t ") == "a b")
        #expect(HTTPSyntax.trimmed(" \t ") == "")
        #expect(HTTPSyntax.trimmed("\ra ") == "\ra")
        #expect(ASCII.trimmed(Array("\r\n a\r\n".utf8)) == [UInt8(ascii: "a")])
    }

    @Test(arguments: [
        (#""a\"b\\c" d"#, #"a"b\c"#, true, " d"), (#""","#, "", true, ","), (#""a"b""#, "a", true, #"b""#),
        (#""a"#, "a", false, ""), (#""a\"#, #"a\"#, false, ""), (#""a\""#, #"a""#, false, ""), (#"""#, "", false, ""),
    ]) func `a quoted string ends at its first quote without a backslash`(
        text: String, content: String, isClosed: Bool, rest: String
    ) {
        var bytes = Array(text.utf8)[...]
        let string = HTTPSyntax.quotedString(&bytes)
        #expect(ASCII.text(string.text[...]) == content && string.isClosed == isClosed && ASCII.text(bytes) == rest)
    }

    @Test(arguments: [
        ("", 0), ("ab", 2), (",", 0), ("a,b", 1), (#"a=",",b"#, 5), (#"a="\",",b"#, 7), (#"a\,b"#, 2), (#"a","#, nil),
        (#"a="\","#, nil), (#"""#, nil),
    ]) func `a separator in a quoted string does not separate`(text: String, position: Int?) {
        let bytes = Array("xx\(text)".utf8)
        #expect(HTTPSyntax.firstSeparator(",", in: bytes[2...]) == position.map { $0 + 2 })
    }
}
