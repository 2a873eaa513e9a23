import ConvoySupport

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
