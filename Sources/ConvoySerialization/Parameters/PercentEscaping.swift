import ConvoySupport
import Foundation

/// Percent-escaping of the names and values in queries and forms, as in AFNetworking since 2.6.0.
public enum PercentEscaping {
    /// Appends the escaped text to a buffer of ASCII.
    static func append(_ text: String, to output: inout [UInt8]) {
        var text = text
        text.withUTF8 { bytes in
            for byte in bytes {
                if keeps(byte) {
                    output.append(byte)
                } else {
                    output.append(UInt8(ascii: "%"))
                    output.append(ASCII.hexadecimalDigit(byte >> 4, uppercase: true))
                    output.append(ASCII.hexadecimalDigit(byte & 0xF, uppercase: true))
                }
            }
        }
    }

    /// Escapes text for use as a name or a value in a query that you write yourself. The counterpart of
    /// `AFPercentEscapedStringFromString`.
    ///
    /// RFC 3986's unreserved characters, `/` and `?` are kept; every other byte of the UTF-8 becomes `%XX`, a space
    /// `%20`.
    ///
    /// ```swift
    /// let query = "q=" + PercentEscaping.escape("a&b = c")  // q=a%26b%20%3D%20c
    /// ```
    public static func escape(_ text: String) -> String {
        var output: [UInt8] = []
        output.reserveCapacity(text.utf8.count)
        append(text, to: &output)
        return String(decoding: output, as: UTF8.self)
    }

    /// Escapes the characters that are not allowed in a query (RFC 3986, section 3.4) that a custom closure made; a
    /// bare `#` would end it. Existing escapes are kept.
    static func repaired(_ query: String) -> String {
        if query.utf8.allSatisfy(ByteSet.query.contains) { return query }
        return String(decoding: PercentEncoding.encoded(Array(query.utf8)[...], allowing: .query), as: UTF8.self)
    }

    private static func keeps(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            // "-", ".", "/" and the digits are adjacent in ASCII.
            UInt8(ascii: "-")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "?"):
            return true
        default:
            return false
        }
    }
}

extension URL {
    /// This URL with a query appended to its own, before the fragment; nil if the result is not a URL.
    ///
    /// AFNetworking puts the query after the fragment, so that it is lost, and adds an `&` to an empty query.
    func appendingQuery(_ query: String) -> URL? {
        let text = absoluteString
        let fragment = text.firstIndex(of: "#") ?? text.endIndex
        let head = text[..<fragment]
        let joint: String
        if !head.utf8.contains(UInt8(ascii: "?")) {
            joint = "?"
        } else {
            joint = head.hasSuffix("?") || head.hasSuffix("&") ? "" : "&"
        }
        // If Foundation must escape any character, it escapes every "%" of the URL again.
        let safe = PercentEscaping.repaired(query)
        return URL(string: "\(head)\(joint)\(safe)\(text[fragment...])", encodingInvalidCharacters: false)
    }
}
