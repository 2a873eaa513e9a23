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
        var bytes = Array("HTTP/1.1 \(stored.statusCode) \r\n".utf8)
        bytes.reserveCapacity(512)
        var announced: String?
        var isEncoded = false
        for (name, value) in stored.fields {
            Self.append(name, to: &bytes)
            bytes += [UInt8(ascii: ":"), UInt8(ascii: " ")]
            Self.append(value, to: &bytes)
            bytes += [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
            if ASCII.equalIgnoringCase(name.utf8, "content-length".utf8) { announced = value }
            if ASCII.equalIgnoringCase(name.utf8, "content-encoding".utf8) {
                isEncoded = isEncoded || !ContentCoding.codings(in: [value]).isEmpty
            }
        }
        bytes += [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
        self.init(
            place: Place(request), statusCode: stored.statusCode,
            contentLength: request.method == "HEAD" ? announced.flatMap { Int64($0) } : Int64(length),
            isEncoded: isEncoded, bytes: bytes, cacheUse: use)
    }

    /// How the body is encoded.
    var codings: [ContentCoding] { ContentCoding.codings(in: values(of: "Content-Encoding")) }

    private static func transparent(_ bytes: ArraySlice<UInt8>) -> String {
        if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
        return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        if text.utf8.allSatisfy({ $0 < 0x80 }) {
            bytes += text.utf8
        } else {
            bytes += text.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        }
    }
}
