import ConvoySupport
import Foundation

/// Decides what is stored of a response: gets what would be stored, and returns it, changed or not, or nil to store
/// nothing. It runs on a thread for calls that may block, several calls at a time, and never on a thread of the network.
public typealias CacheResponseHandler = @Sendable (CacheCandidate) -> CacheCandidate?

/// A complete response that is about to be stored, as a handler sees it (AFNetworking's `cacheResponse` block).
public struct CacheCandidate: Sendable {
    enum Body: Sendable {
        case memory([UInt8])
        case file(BodySpool)
    }

    /// A body up to so many bytes is offered as `data`.
    public static let dataLimit = 1 << 20

    /// The normalised URL of the request.
    public let url: URL?
    /// The status of the response.
    public let statusCode: Int
    /// The fields that are stored, in their order. Changes to them are stored, too; they decide how long the response is
    /// fresh, but not which requests it answers.
    public var fields: [(name: String, value: String)]
    /// Kept with the response.
    public var userInfo: [String: String] = [:]
    /// How many bytes the body has, as it came: with its content coding.
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

    /// The body as it came, if it has at most `dataLimit` bytes; nil for a larger one. Reading it may block.
    public var data: Data? {
        guard length <= Self.dataLimit else { return nil }
        switch body {
        case .memory(let bytes): return Data(bytes)
        case .file(let spool): return try? Data(contentsOf: URL(fileURLWithPath: spool.partialPath))
        }
    }

    /// A stream of the body as it came, to be read inside the handler.
    public func makeBodyStream() -> InputStream? {
        switch body {
        case .memory(let bytes): InputStream(data: Data(bytes))
        case .file(let spool): InputStream(fileAtPath: spool.partialPath)
        }
    }

    /// Stores another body in place of the one that arrived. `Content-Length` follows it; if the new bytes have no
    /// content coding, remove `Content-Encoding` from the fields.
    public mutating func replaceBody(_ data: Data) { replacement = [UInt8](data) }

    /// Takes over the changes.
    ///
    /// - Returns: false if a field cannot be one.
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

extension CacheCandidate: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
