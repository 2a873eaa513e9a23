import ConvoySupport
import ConvoyTransport
import Foundation

/// The name under which a response is saved unless the user names another.
public enum SuggestedName {
    /// The name if neither the server nor the URL has one.
    public static let fallback = "download"

    /// A safe file name for the body of a response: that of `Content-Disposition` (RFC 6266), or else the last component
    /// of the path of the response's URL, which is the one after all redirects, or else ``fallback``.
    ///
    /// - Parameters:
    ///   - head: the head of the response.
    ///   - maximumLength: in bytes of UTF-8; see ``FileName/safe(_:maximumLength:)``.
    public static func name(for head: ResponseHead, maximumLength: Int = FileName.maximumLength) -> String {
        for value in head.values(of: "Content-Disposition") {
            if let name = ContentDisposition(value).fileName,
                let safe = FileName.safe(name, maximumLength: maximumLength)
            {
                return safe
            }
        }
        return name(for: head.url, maximumLength: maximumLength) ?? fallback
    }

    /// A safe file name out of the last component of a URL's path; nil if there is none.
    public static func name(for url: URL, maximumLength: Int = FileName.maximumLength) -> String? {
        let path = URLComponents(url: url, resolvingAgainstBaseURL: true)?.percentEncodedPath ?? ""
        guard let component = Array(path.utf8).split(separator: UInt8(ascii: "/")).last else { return nil }
        // An encoded slash is no separator in the URL, but it would be one in the file system.
        return FileName.safe(ASCII.text(PercentEncoding.decoded(component)[...]), maximumLength: maximumLength)
    }
}

/// The value of a `Content-Disposition` field (RFC 6266), with the name that a server suggests for a file.
///
/// It is read as browsers read it: what breaks the grammar is skipped, and a repeated parameter counts once, the first
/// time. Parameters in several pieces (`filename*0`) and words of MIME (`=?utf-8?Q?…?=`) belong to mail, and are not
/// decoded (RFC 6266, appendix C; RFC 8187, section 1).
///
/// The name is the server's text. ``FileName/safe(_:maximumLength:)`` makes a file name of it.
public struct ContentDisposition: Sendable, Hashable {
    /// The type in lower case, such as `attachment` or `inline`; empty if there is none.
    public let type: String
    /// The value of `filename*` (RFC 8187) if it can be decoded, else that of `filename`; nil if neither is there, or if
    /// it is empty.
    public let fileName: String?

    /// Parses a field value. Nothing in it is an error.
    public init(_ fieldValue: String) {
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

/// Reads the parameters of a field value one by one: `head; name=value; name="quoted value"`.
struct ParameterList {
    struct Parameter {
        var name: ArraySlice<UInt8>
        /// Without quotes and escapes.
        var value: [UInt8]
        var isQuoted: Bool
    }

    /// What comes before the first semicolon, without the whitespace around it.
    let head: ArraySlice<UInt8>
    private var rest: ArraySlice<UInt8>

    init(_ text: String) {
        let bytes = Array(text.utf8)
        let end = bytes.firstIndex(of: Self.semicolon) ?? bytes.endIndex
        head = ASCII.trimmed(bytes[..<end])
        rest = bytes[end...].dropFirst()
    }

    /// The next parameter that has a value. One whose last quote is missing has none, and neither has what follows it.
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
    /// The text; nil for another charset than UTF-8 and ISO-8859-1, for a `%` that encodes nothing, and for bytes that
    /// are no text.
    static func text(of value: ArraySlice<UInt8>) -> String? {
        let parts = value.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let bytes = decoded(parts[2]) else { return nil }
        let name = parts[0]
        if ASCII.equalIgnoringCase(name, "utf-8".utf8) || ASCII.equalIgnoringCase(name, "utf8".utf8) {
            return nonempty(String(validating: bytes, as: UTF8.self))
        }
        // Characters beyond ASCII that are not encoded are in the field's own charset, not in this one.
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
