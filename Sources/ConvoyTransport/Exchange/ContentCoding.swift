import ConvoySupport

/// A content coding, as named in `Content-Encoding` (RFC 9110, section 8.4.1).
enum ContentCoding: Hashable, Sendable {
    /// `gzip` or `x-gzip` (RFC 1952).
    case gzip
    /// `deflate` (RFC 1950), including the form without the zlib wrapper (RFC 1951) that many servers send.
    case deflate
    /// `br` (RFC 7932).
    case brotli
    /// `zstd` (RFC 8878), with windows up to the size that RFC 9659 allows.
    case zstd
    /// An unsupported coding, with its name in lowercase.
    case unknown(String)

    /// Creates the coding with a name (case-insensitive). Returns nil for `identity`, which is not a coding.
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

    /// Returns the codings in a head's `Content-Encoding` fields, in the order in which they were applied.
    ///
    /// Several fields count as one list (RFC 9110, section 5.3). `identity` and empty members are omitted, so an empty
    /// result means that the body is not encoded.
    ///
    /// - Parameter values: The values in the order of the fields, trimmed or not.
    static func codings(in values: some Sequence<String>) -> [ContentCoding] {
        values.flatMap { codings(in: ArraySlice($0.utf8)) }
    }

    /// Returns the codings in the bytes of one value.
    static func codings(in value: ArraySlice<UInt8>) -> [ContentCoding] {
        value.split(separator: UInt8(ascii: ",")).compactMap { member in
            let name = ASCII.trimmed(member)
            return name.isEmpty ? nil : ContentCoding(name: ASCII.text(name))
        }
    }

    /// Whether `ContentDecoder` supports the coding.
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

/// The reason why an encoded body could not be decoded.
struct DecodingFailure: Error, Hashable {
    enum Reason: Hashable {
        /// The bytes are not in this coding or are damaged. The associated value is the message of the decoding
        /// library.
        case corrupt(String)
        /// The body ended before its encoded data did.
        case endsEarly
        /// The decoded size exceeds the limit for this number of encoded bytes.
        case expandsTooMuch(encoded: Int64, decoded: Int64)
        /// The body has more stacked codings than allowed.
        case tooManyLayers(Int)
        /// The coding is not supported.
        case unknownCoding
        /// There is not enough memory for the decoder.
        case noMemory
    }

    /// The coding that failed. With several codings, this is the one that detected the failure.
    let coding: ContentCoding
    let reason: Reason
}

extension DecodingFailure: CustomStringConvertible {
    /// A message that describes the failure.
    var description: String {
        switch reason {
        case .corrupt(let words): "The body is not valid \(coding): \(words)."
        case .endsEarly: "The \(coding) data in the body is incomplete."
        case .expandsTooMuch(let encoded, let decoded):
            "Decoding \(encoded) bytes of \(coding) produced \(decoded) bytes, which exceeds the limit."
        case .tooManyLayers(let count):
            "The body has \(count) content codings; at most \(ContentDecoder.maximumLayerCount) are supported."
        case .unknownCoding: "Unsupported content coding: \(coding)."
        case .noMemory: "There is not enough memory to decode \(coding)."
        }
    }
}
