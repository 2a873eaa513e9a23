import ConvoySecurity
import ConvoySupport
import ConvoyUploads
import Foundation

/// The body of a request, with its digests, which are computed only once.
final class RequestPayload: Sendable {
    enum Content: Sendable {
        case data(Data)
        case file(SourceFile, Range<Int64>)
    }

    /// The digests of a body. MD5 is nil if a policy forbids it.
    struct Digests: Sendable {
        let sha256: Data
        let md5: Data?
    }

    static let none = RequestPayload(.data(Data()))

    let content: Content
    private let computed = Locked(Digests?.none)

    init(_ content: Content) { self.content = content }

    /// The length in bytes.
    var length: Int64 {
        switch content {
        case .data(let data): Int64(data.count)
        case .file(_, let range): range.upperBound - range.lowerBound
        }
    }

    /// A new stream over the body of a file; nil for data.
    var stream: InputStream? {
        guard case .file(let file, let range) = content else { return nil }
        return SourceRangeStream(range) { try file.open() }
    }

    /// Throws an error if the file of the body has changed.
    func check() throws(ObjectStorageError) {
        if case .file(let file, _) = content { try file.check() }
    }

    /// Returns the digests. The first call reads the file, and blocks.
    func digests() throws(ObjectStorageError) -> Digests {
        if let digests = computed.withLock({ $0 }) { return digests }
        let (sha256, md5) = (MessageDigest(.sha256), MessageDigest(.md5))
        switch content {
        case .data(let data):
            sha256.update(data)
            md5.update(data)
        case .file(let file, let range):
            try file.read(range) { bytes in
                sha256.update(bytes)
                md5.update(bytes)
            }
        }
        guard let strong = sha256.value() else { throw .noDigest }
        let digests = Digests(sha256: strong, md5: md5.value())
        computed.withLock { $0 = digests }
        return digests
    }
}
