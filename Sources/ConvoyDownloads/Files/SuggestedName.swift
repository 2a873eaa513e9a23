import ConvoySupport
import ConvoyTransport
import Foundation

/// The name under which a response is saved if none is specified.
package enum SuggestedName {
    /// The name used if neither the response nor the URL contains a name, usually because the URL identifies a
    /// directory.
    package static let fallback = "index.html"

    /// Returns a safe file name for the body of a response: the name in `Content-Disposition` (RFC 6266), otherwise the
    /// last path component of the response's URL, after all redirects, otherwise ``fallback``.
    ///
    /// - Parameters:
    ///   - head: The head of the response.
    ///   - maximumLength: The maximum length, in bytes of UTF-8; see
    ///     ``FileName/safe(_:maximumLength:)``.
    package static func name(for head: ResponseHead, maximumLength: Int = FileName.maximumLength) -> String {
        for value in head.values(of: "Content-Disposition") {
            if let name = ContentDisposition(value).fileName,
                let safe = FileName.safe(name, maximumLength: maximumLength)
            {
                return safe
            }
        }
        return name(for: head.url, maximumLength: maximumLength) ?? fallback
    }

    /// Returns a safe file name from the last path component of a URL; nil if the path is empty or ends with a slash.
    package static func name(for url: URL, maximumLength: Int = FileName.maximumLength) -> String? {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        let components = Array(path.utf8).split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard let component = components.last, !component.isEmpty else { return nil }
        // An encoded slash is not a separator in the URL, but would be one in the file system.
        return FileName.safe(ASCII.text(PercentEncoding.decoded(component)[...]), maximumLength: maximumLength)
    }
}

/// The value of a `Content-Disposition` field (RFC 6266), with the file name suggested by the server.
///
/// The value is parsed as browsers do: invalid parts are skipped, and the first value of a repeated parameter is used.
/// Parameters in several pieces (`filename*0`) and MIME encoded words (`=?utf-8?Q?…?=`) belong to mail and are not
/// decoded (RFC 6266, appendix C; RFC 8187, section 1).
///
/// The name is untrusted text. Use ``FileName/safe(_:maximumLength:)`` to create a file name from it.
package struct ContentDisposition: Sendable, Hashable {
    /// The disposition type in lowercase, such as `attachment` or `inline`; empty if missing.
    package let type: String
    /// The value of `filename*` (RFC 8187) if it can be decoded, otherwise that of `filename`; nil if both are missing,
    /// or the name is empty.
    package let fileName: String?

    /// Parses a field value, skipping invalid parts.
    package init(_ fieldValue: String) {
        var scanner = ParameterList(fieldValue)
        type = String(decoding: scanner.head.map(ASCII.lowercased), as: UTF8.self)
        var plain: [UInt8]?
        var extended: (value: [UInt8], isQuoted: Bool)?
        while let parameter = scanner.next() {
            if ASCII.equalIgnoringCase(parameter.name, "filename".utf8) {
                plain = plain ?? parameter.value
            } else if ASCII.equalIgnoringCase(parameter.name, "filename*".utf8), extended == nil {
                extended = (parameter.value, parameter.isQuoted)
            }
        }
        // An extended value is never quoted (RFC 8187, section 3.2.1).
        let decoded = extended.flatMap { $0.isQuoted ? nil : ExtendedValue.text(of: $0.value[...]) }
        let name = decoded ?? plain.map { String(decoding: $0, as: UTF8.self) }
        fileName = name?.isEmpty == true ? nil : name
    }
}

/// A parser that returns the parameters of a field value one by one: `head; name=value; name="quoted value"`.
struct ParameterList {
    struct Parameter {
        var name: ArraySlice<UInt8>
        /// The value without quotes and escapes.
        var value: [UInt8]
        var isQuoted: Bool
    }

    /// The text before the first semicolon, trimmed.
    let head: ArraySlice<UInt8>
    private var rest: ArraySlice<UInt8>

    init(_ text: String) {
        let bytes = Array(text.utf8)
        let end = bytes.firstIndex(of: Self.semicolon) ?? bytes.endIndex
        head = ASCII.trimmed(bytes[..<end])
        rest = bytes[end...].dropFirst()
    }

    /// Returns the next parameter with a value. A parameter without a closing quote and all parameters after it are
    /// skipped.
    mutating func next() -> Parameter? {
        while !rest.isEmpty {
            let name = rest.prefix { $0 != Self.semicolon && $0 != UInt8(ascii: "=") }
            rest = rest[name.endIndex...]
            guard rest.popFirst() == UInt8(ascii: "=") else { continue }
            rest = rest.drop(while: ASCII.isWhitespace)
            guard rest.first == UInt8(ascii: "\"") else {
                let value = rest.prefix { $0 != Self.semicolon }
                rest = rest[value.endIndex...].dropFirst()
                return Parameter(name: ASCII.trimmed(name), value: Array(ASCII.trimmed(value)), isQuoted: false)
            }
            let (value, isClosed) = HTTPSyntax.quotedString(&rest)
            guard isClosed else { return nil }
            rest = rest.drop { $0 != Self.semicolon }.dropFirst()
            return Parameter(name: ASCII.trimmed(name), value: value, isQuoted: true)
        }
        return nil
    }

    private static let semicolon = UInt8(ascii: ";")
}

/// The value of a parameter with a charset (RFC 8187, section 3.2): `UTF-8''na%C3%AFve.txt`.
enum ExtendedValue {
    /// Returns the decoded text; nil if the charset is neither UTF-8 nor ISO-8859-1, a `%` is invalid, or the bytes are
    /// not valid text.
    static func text(of value: ArraySlice<UInt8>) -> String? {
        let parts = value.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = decoded(parts[2]) else { return nil }
        let name = parts[0]
        if ASCII.equalIgnoringCase(name, "utf-8".utf8) || ASCII.equalIgnoringCase(name, "utf8".utf8) {
            return nonempty(String(validating: bytes, as: UTF8.self))
        }
        // Unencoded characters beyond ASCII are in the charset of the field, not in that of the value.
        guard ASCII.equalIgnoringCase(name, "iso-8859-1".utf8), parts[2].allSatisfy({ $0 < 0x80 }) else { return nil }
        return nonempty(String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) })))
    }

    private static func nonempty(_ text: String?) -> String? { text?.isEmpty == true ? nil : text }

    private static func decoded(_ value: ArraySlice<UInt8>) -> [UInt8]? {
        for index in value.indices where value[index] == UInt8(ascii: "%") {
            let digits = value[(index + 1)...].prefix(2)
            guard digits.count == 2, digits.allSatisfy(ASCII.isHexadecimal) else { return nil }
        }
        return PercentEncoding.decoded(value)
    }
}
