import ConvoySupport

/// A coding of a body, as `Content-Encoding` names it (RFC 9110, section 8.4.1).
enum ContentCoding: Hashable, Sendable {
    /// `gzip` or `x-gzip` (RFC 1952).
    case gzip
    /// `deflate` (RFC 1950), also without its wrapper (RFC 1951), as many servers send it.
    case deflate
    /// `br` (RFC 7932).
    case brotli
    /// `zstd` (RFC 8878), with the window that RFC 9659 allows.
    case zstd
    /// One that cannot be undone here; its name in lower case.
    case unknown(String)

    /// The coding of a name, in any case; nil for `identity`, which is none.
    init?(name: String) {
        switch name.lowercased() {
        case "gzip", "x-gzip": self = .gzip
        case "deflate": self = .deflate
        case "br": self = .brotli
        case "zstd": self = .zstd
        case "identity": return nil
        case let name: self = .unknown(name)
        }
    }

    /// The codings that the values of a head's `Content-Encoding` fields name, in the order in which they were applied.
    ///
    /// Several fields count as one list (RFC 9110, section 5.3). `identity` and empty members are left out, so that
    /// an empty result means a body that is not encoded.
    ///
    /// - Parameter values: the values in the order in which the fields came, whitespace at their ends included or not.
    static func codings(in values: some Sequence<String>) -> [ContentCoding] {
        values.flatMap { codings(in: ArraySlice($0.utf8)) }
    }

    /// The same for one value as it came, on the bytes.
    static func codings(in value: ArraySlice<UInt8>) -> [ContentCoding] {
        value.split(separator: UInt8(ascii: ",")).compactMap { member in
            let name = ASCII.trimmed(member)
            return name.isEmpty ? nil : ContentCoding(name: ASCII.text(name))
        }
    }

    /// Whether `ContentDecoder` can undo it.
    var isKnown: Bool {
        if case .unknown = self { false } else { true }
    }
}

extension ContentCoding: CustomStringConvertible {
    /// The name in `Content-Encoding`.
    var description: String {
        switch self {
        case .gzip: "gzip"
        case .deflate: "deflate"
        case .brotli: "br"
        case .zstd: "zstd"
        case .unknown(let name): name
        }
    }
}
