import ConvoySupport
import Foundation

/// The form in which a cache has heads: text with one character for each byte, so that nothing is lost.
extension ResponseHead {
    /// The head, as the cache takes it.
    var forCache: CachedHead {
        var fields: [(name: String, value: String)] = []
        forEachField { fields.append((Self.transparent($0), Self.transparent($1))) }
        return CachedHead(statusCode: statusCode, fields: fields)
    }

    /// Whether it says that it may be stored: for how long it is fresh, or how it is confirmed.
    var concernsCaches: Bool { hasField("cache-control", "etag", "expires", "last-modified") }

    /// A head out of the cache.
    ///
    /// - Parameter length: how many bytes the stored body has.
    convenience init(_ stored: CachedHead, of request: TransferRequest, length: Int, use: CacheUse) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(stored.fields.reduce(64) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 })
        bytes += "HTTP/1.1 \(stored.statusCode) \r\n".utf8
        var announced: String?
        var isEncoded = false
        for (name, value) in stored.fields {
            Self.append(name, to: &bytes)
            bytes += ": ".utf8
            Self.append(value, to: &bytes)
            bytes += "\r\n".utf8
            switch name.utf8.count {
            case 14 where ASCII.equalIgnoringCase(name.utf8, "content-length".utf8): announced = value
            case 16 where ASCII.equalIgnoringCase(name.utf8, "content-encoding".utf8):
                isEncoded = isEncoded || !ContentCoding.codings(in: [value]).isEmpty
            default: break
            }
        }
        if let age = stored.age { bytes += "Age: \(age)\r\n".utf8 }
        bytes += "\r\n".utf8
        self.init(
            place: Place(request), statusCode: stored.statusCode,
            contentLength: request.method == "HEAD" ? announced.flatMap { Int64($0) } : Int64(length),
            isEncoded: isEncoded, bytes: bytes, cacheUse: use)
    }

    /// How the body is encoded.
    var codings: [ContentCoding] { isEncoded ? ContentCoding.codings(in: values(of: "Content-Encoding")) : [] }

    private static func transparent(_ bytes: ArraySlice<UInt8>) -> String {
        if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
        return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        let isPlain: Void? =
            text.utf8.withContiguousStorageIfAvailable { units -> Void? in
                guard units.allSatisfy({ $0 < 0x80 }) else { return nil }
                bytes += units
                return ()
            } ?? nil
        if isPlain == nil { bytes += text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) } }
    }
}
