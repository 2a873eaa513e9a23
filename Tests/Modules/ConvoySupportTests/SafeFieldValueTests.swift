import ConvoySupport
import Testing

@Suite struct SafeFieldValueTests {
    /// Returns the bytes after a round trip through text.
    private func roundTrip(_ bytes: [UInt8]) -> [UInt8]? {
        SafeFieldValue(bytes).map { SafeFieldValue.bytes(of: $0.text) }
    }

    @Test func `each byte that a field can contain survives a round trip`() {
        for byte in UInt8.min ... .max {
            let bytes = [UInt8(ascii: "\""), byte, UInt8(ascii: "\"")]
            let isSendable = byte == 0x09 || byte >= 0x20 && byte != 0x7F
            #expect(roundTrip(bytes) == (isSendable ? bytes : nil), "\(byte)")
            #expect(SafeFieldValue(text: SafeFieldValue(bytes)?.text ?? "")?.bytes == (isSendable ? bytes : nil), "\(byte)")
        }
    }

    @Test func `text stays readable`() {
        for text in ["\"a\"", "W/\"é\"", "e\u{301}", "😀", "\u{FEFF}x", "\u{10FFFF}"] {
            #expect(SafeFieldValue(text.utf8)?.text.utf8.elementsEqual(text.utf8) == true, "\(text)")
        }
    }

    @Test func `invalid UTF-8 and escape-like text survive a round trip`() {
        let escape = Array("\u{10FE80}\u{10FEFF}".utf8)
        let cases: [[UInt8]] = [
            [0xE9], [0xC3], [0xC3, 0xA9, 0xE9], [0xED, 0xA0, 0x80], [0xC0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xFF, 0xFE],
            escape, escape + [0xE9], [0xE9] + escape, Array(escape.dropLast()), Array("e\u{301}".utf8) + [0x80],
            [0x80, 0xCC, 0x81],
        ]
        for bytes in cases { #expect(roundTrip(bytes) == bytes, "\(bytes)") }
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<5000 {
            let bytes = (0..<Int.random(in: 1...12, using: &generator)).map { _ in
                // Prefer the bytes that occur in longer sequences.
                [UInt8.random(in: 0x80...0xFF), 0xF4, 0x8F, 0xBA, 0xBB, 0x80, UInt8(ascii: "a")].randomElement() ?? 0x80
            }
            #expect(roundTrip(bytes) == bytes, "\(bytes)")
        }
    }

    @Test func `a value that is empty or too long is rejected`() {
        #expect(SafeFieldValue([]) == nil)
        #expect(SafeFieldValue([UInt8](repeating: 0x61, count: SafeFieldValue.maximumLength)) != nil)
        #expect(SafeFieldValue([UInt8](repeating: 0x61, count: SafeFieldValue.maximumLength + 1)) == nil)
    }

    @Test func `Latin-1 text yields its bytes`() {
        #expect(SafeFieldValue(latin1: "\"\u{E9}\u{FF}\"")?.bytes == [0x22, 0xE9, 0xFF, 0x22])
        #expect(SafeFieldValue(latin1: "\u{100}") == nil)
        #expect(SafeFieldValue(latin1: "a\r\u{301}") == nil)
    }
}
