import ConvoySupport
import Foundation

/// Decides what the cache stores: receives the response that would be stored and returns it, changed or not, or nil to
/// store nothing. It may block. Several calls may run concurrently, never on a network thread.
public typealias CacheResponseHandler = @Sendable (CacheCandidate) -> CacheCandidate?

/// A complete response that is about to be stored, for a `CacheResponseHandler` (AFNetworking's `cacheResponse` block).
public struct CacheCandidate: Sendable {
    enum Body: Sendable {
        case memory([UInt8])
        case file(BodySpool)
    }

    /// The largest body, in bytes, that is available as `data`.
    public static let dataLimit = 1 << 20

    /// The normalized URL of the request.
    public let url: URL?
    /// The status of the response.
    public let statusCode: Int
    /// The fields to store, in order. Changed fields decide how long the response is fresh, but not which requests it
    /// answers.
    public var fields: [(name: String, value: String)]
    /// The strings to store with the response, by key.
    public var userInfo: [String: String] = [:]
    /// The length of the body in bytes, as received: with its content coding.
    public let length: Int
    private let body: Body
    private(set) var replacement: [UInt8]?

    init(_ draft: CacheDraft, _ body: Body, _ length: Int) {
        url = URL(string: draft.address)
        statusCode = draft.head.statusCode
        fields = draft.head.fields
        self.body = body
        self.length = length
    }

    /// The body as received; nil if it has more than `dataLimit` bytes. Reading it may block.
    public var data: Data? {
        guard length <= Self.dataLimit else { return nil }
        switch body {
        case .memory(let bytes): return Data(bytes)
        case .file(let spool): return try? Data(contentsOf: URL(fileURLWithPath: spool.partialPath))
        }
    }

    /// Returns a stream of the body as received, which is valid only inside the handler.
    public func makeBodyStream() -> InputStream? {
        switch body {
        case .memory(let bytes): InputStream(data: Data(bytes))
        case .file(let spool): InputStream(fileAtPath: spool.partialPath)
        }
    }

    /// Replaces the body to store. `Content-Length` is updated; if the new bytes have no content coding, remove
    /// `Content-Encoding` from the fields.
    public mutating func replaceBody(_ data: Data) { replacement = [UInt8](data) }

    /// Applies the handler's changes to a draft.
    ///
    /// - Returns: False if a field is invalid.
    func apply(to draft: inout CacheDraft) -> Bool {
        var fields = fields
        guard fields.allSatisfy({ HTTPSyntax.isToken($0.name) && HTTPSyntax.isFieldValue($0.value) }) else { return false }
        if let replacement {
            fields.removeAll { FieldNames.matches($0.name, "content-length") }
            fields.append(("Content-Length", String(replacement.count)))
        }
        draft.head = CachedHead(statusCode: statusCode, fields: fields)
        draft.userInfo = userInfo
        return true
    }
}

extension CacheCandidate: OpaqueReflectable {}
