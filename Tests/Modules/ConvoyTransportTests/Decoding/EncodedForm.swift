@testable import ConvoyTransport

/// The forms in which a server may send a body: each coding, unusual variants of its format, and stacked codings.
enum EncodedForm: CaseIterable {
    case gzip, gzipMembers, gzipNamed, gzipStored
    case zlib, bareDeflate
    case brotli
    case zstd, zstdBare, zstdFrames
    case gzipInBrotli, gzipInGzip, allInAll

    /// The codings in the order of their application.
    var codings: [ContentCoding] {
        switch self {
        case .gzip, .gzipMembers, .gzipNamed, .gzipStored: [.gzip]
        case .zlib, .bareDeflate: [.deflate]
        case .brotli: [.brotli]
        case .zstd, .zstdBare, .zstdFrames: [.zstd]
        case .gzipInBrotli: [.gzip, .brotli]
        case .gzipInGzip: [.gzip, .gzip]
        case .allInAll: [.zstd, .deflate, .gzip, .brotli, .zstd]
        }
    }

    /// Returns the encoded bytes in parts. After each part, the body may appear complete.
    func parts(_ bytes: [UInt8]) throws -> [[UInt8]] {
        let half = bytes.count / 2
        switch self {
        case .gzip: return [try Encoders.gzip(bytes)]
        case .gzipMembers:
            return [
                try Encoders.gzip(Array(bytes[..<half])), try Encoders.gzip([]),
                try Encoders.gzip(Array(bytes[half...])), try Encoders.gzip([]),
            ]
        case .gzipNamed:
            // Add a name and an extra field, which zlib's encoder omits by default.
            var member = try Encoders.gzip(bytes)
            member[3] |= 0x04 | 0x08
            member.insert(contentsOf: [3, 0, 1, 2, 3] + Array("a name".utf8) + [0], at: 10)
            return [member]
        case .gzipStored: return [try Encoders.gzip(bytes, level: 0)]
        case .zlib: return [try Encoders.deflate(bytes, windowBits: 15)]
        case .bareDeflate: return [try Encoders.deflate(bytes, windowBits: -15)]
        case .brotli: return [try Encoders.brotli(bytes)]
        case .zstd: return [try Encoders.zstd(bytes)]
        case .zstdBare: return [try Encoders.zstd(bytes, hasChecksum: false, windowLog: 17)]
        case .zstdFrames:
            return [
                Encoders.skippableFrame([]), try Encoders.zstd(Array(bytes[..<half])),
                Encoders.skippableFrame([1, 2, 3]), try Encoders.zstd([]),
                try Encoders.zstd(Array(bytes[half...]), hasChecksum: false),
            ]
        case .gzipInBrotli: return [try Encoders.brotli(try Encoders.gzip(bytes))]
        case .gzipInGzip: return [try Encoders.gzip(try Encoders.gzip(bytes))]
        case .allInAll:
            let inner = try Encoders.deflate(try Encoders.zstd(bytes), windowBits: -15)
            return [try Encoders.zstd(try Encoders.brotli(try Encoders.gzip(inner)))]
        }
    }

    func encode(_ bytes: [UInt8]) throws -> [UInt8] { try parts(bytes).flatMap { $0 } }
}
