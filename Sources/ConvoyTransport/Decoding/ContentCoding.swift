import ConvoySupport

/// A content coding, as named in `Content-Encoding` (RFC 9110, section 8.4.1).
enum ContentCoding: Hashable, Sendable {
    /// `gzip` or `x-gzip` (RFC 1952).
    case gzip
    /// `deflate` (RFC 1950), also without its wrapper (RFC 1951), as many servers send it.
    case deflate
    /// `br` (RFC 7932).
    case brotli
    /// `zstd` (RFC 8878), with the window that RFC 9659 allows.
    case zstd
    /// A coding that cannot be decoded here, with its name in lower case.
    case unknown(String)

    /// The coding with a name (case-insensitive); nil for `identity`, which is not a coding.
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

    /// The codings in a head's `Content-Encoding` fields, in the order in which they were applied.
    ///
    /// Several fields count as one list (RFC 9110, section 5.3). `identity` and empty members are omitted, so an empty
    /// result means that the body is not encoded.
    ///
    /// - Parameter values: the values in the order of the fields, trimmed or not.
    static func codings(in values: some Sequence<String>) -> [ContentCoding] {
        values.flatMap { codings(in: ArraySlice($0.utf8)) }
    }

    /// The same for the bytes of one value.
    static func codings(in value: ArraySlice<UInt8>) -> [ContentCoding] {
        value.split(separator: UInt8(ascii: ",")).compactMap { member in
            let name = ASCII.trimmed(member)
            return name.isEmpty ? nil : ContentCoding(name: ASCII.text(name))
        }
    }

    /// Whether `ContentDecoder` can decode it.
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

/// Why an encoded body could not be decoded.
struct DecodingFailure: Error, Hashable {
    enum Reason: Hashable {
        /// The bytes are not in this coding, or are damaged, with the message of the decoding library.
        case corrupt(String)
        /// The body ended before its encoded data did.
        case endsEarly
        /// The decoded bytes exceed the limit for this many bytes from the wire.
        case expandsTooMuch(encoded: Int64, decoded: Int64)
        /// More stacked codings than any server has reason to use.
        case tooManyLayers(Int)
        /// A coding that cannot be decoded here.
        case unknownCoding
        /// There is no memory for the decoder.
        case noMemory
    }

    /// The coding that failed; of several, the one that detected the failure.
    let coding: ContentCoding
    let reason: Reason
}

extension DecodingFailure: CustomStringConvertible {
    /// One sentence for the user.
    var description: String {
        switch reason {
        case .corrupt(let words): "The body is not valid \(coding): \(words)."
        case .endsEarly: "The body ends before its \(coding) data does."
        case .expandsTooMuch(let encoded, let decoded):
            "\(encoded) bytes have become \(decoded) by decoding \(coding): more than the limit allows."
        case .tooManyLayers(let count):
            "The body is encoded \(count) times, which is more than \(ContentDecoder.maximumLayerCount)."
        case .unknownCoding: "The body's coding \(coding) is not known."
        case .noMemory: "There is no memory for decoding \(coding)."
        }
    }
}
