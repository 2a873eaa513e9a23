import Foundation

/// The syntax rules of RFC 9110 for strings in messages.
@usableFromInline package enum HTTPSyntax {
    /// Returns whether a string is a token (section 5.6.2): one or more ASCII characters, without separators or spaces.
    package static func isToken(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { isToken($0) }
    }

    @inlinable package static func isToken(_ bytes: some Collection<UInt8>) -> Bool {
        !bytes.isEmpty && bytes.allSatisfy(isTokenByte)
    }

    /// Returns whether a string is a valid field value (section 5.5): no control characters except tabs. Bytes above
    /// ASCII are allowed as `obs-text`.
    package static func isFieldValue(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { isFieldValue($0) }
    }

    @inlinable package static func isFieldValue(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.allSatisfy { ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }
    }

    @inlinable package static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            return true
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            return true
        default:
            return false
        }
    }

    /// Returns whether two names denote the same field (section 5.1).
    package static func isSameField(_ one: String, _ other: String) -> Bool {
        ASCII.equalIgnoringCase(one.utf8, other.utf8)
    }

    /// Returns whether a byte is optional whitespace around field values (section 5.6.3): a space or a tab.
    @inlinable package static func isOptionalWhitespace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t")
    }

    /// Returns the string without leading and trailing optional whitespace.
    package static func trimmed(_ text: Substring) -> Substring {
        Substring(ASCII.trimmed(text.utf8, blank: isOptionalWhitespace))
    }
}

/// Quoted strings (section 5.6.4), in which `\` escapes the next byte.
extension HTTPSyntax {
    /// Reads a quoted string, removing its quotes and escapes.
    ///
    /// - Parameter rest: The bytes from the opening quote on. On return, the bytes after the closing quote.
    /// - Returns: The text, and whether the string is closed. An unclosed string extends to the end.
    @inlinable package static func quotedString<Bytes: Collection<UInt8>>(
        _ rest: inout Bytes
    ) -> (text: [UInt8], isClosed: Bool) where Bytes.SubSequence == Bytes {
        rest = rest.dropFirst()
        var text: [UInt8] = []
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") { return (text, true) }
            if byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() {
                text.append(escaped)
            } else {
                text.append(byte)
            }
        }
        return (text, false)
    }

    /// Returns the position of the first separator outside quoted strings, or the end of the text. Returns nil if a
    /// quoted string is not closed.
    package static func firstSeparator(_ separator: Unicode.Scalar, in text: ArraySlice<UInt8>) -> Int? {
        var rest = text
        while let byte = rest.first, byte != UInt8(ascii: separator) {
            if byte != UInt8(ascii: "\"") {
                rest = rest.dropFirst()
            } else if !quotedString(&rest).isClosed {
                return nil
            }
        }
        return rest.startIndex
    }
}

/// Media types of header fields (RFC 9110, section 8.3.1).
package enum MediaType {
    /// Returns whether a `Content-Type` value has this type, ignoring parameters and case.
    package static func of(_ value: String?, is type: String) -> Bool {
        guard let essence = value?.utf8.prefix(while: { $0 != UInt8(ascii: ";") }) else { return false }
        return ASCII.equalIgnoringCase(ASCII.trimmed(essence), type.utf8)
    }
}

/// The version of this package, as shown by the command-line tool and recorded in HAR archives.
package enum ConvoyVersion {
    package static let text = "0.1.0"
}

/// The default `User-Agent`.
package enum UserAgent {
    /// The value `<program>/<version> (Linux)`, in ASCII only. It omits the system's version, which would help
    /// fingerprint a machine. It is short because libcurl formats each request's head byte by byte.
    package static let standard: String = {
        let bundle = Bundle.main.infoDictionary ?? [:]
        let name = (bundle["CFBundleExecutable"] as? String) ?? ProcessInfo.processInfo.processName
        let version = (bundle["CFBundleShortVersionString"] as? String) ?? (bundle["CFBundleVersion"] as? String)
        return text(name: name, version: version ?? "1.0")
    }()

    package static func text(name: String, version: String) -> String {
        #if os(Linux)
        let platform = "Linux"
        #elseif os(macOS)
        let platform = "Mac OS X"
        #else
        let platform = "Unknown"
        #endif
        return "\(token(name, or: "Convoy"))/\(token(version, or: "1.0")) (\(platform))"
    }

    /// Converts text to a product name (RFC 9110, section 10.1.5): each run of characters that are not allowed in a
    /// token becomes one `_`.
    private static func token(_ text: String, or substitute: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            let piece = String(scalar)
            if HTTPSyntax.isToken(piece) {
                result += piece
            } else if !result.hasSuffix("_") {
                result += "_"
            }
        }
        return result.contains { $0 != "_" } ? result : substitute
    }
}
