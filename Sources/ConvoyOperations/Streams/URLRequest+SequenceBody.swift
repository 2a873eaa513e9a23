import ConvoySerialization
import Foundation
import FoundationNetworking

/// Methods that set a body that is produced while it is sent.
extension URLRequest {
    /// Sets an asynchronous sequence of byte collections, for example `Data` or `[UInt8]`, as the body. The elements
    /// are sent one after another.
    ///
    /// ```swift
    /// var request = URLRequest(url: url)
    /// request.httpMethod = "POST"
    /// try request.setBody(lines.map { Data(($0 + "\n").utf8) })
    /// ```
    ///
    /// The sequence is iterated over in its own task, and not faster than the network accepts the elements: the next
    /// one is requested while the previous one is sent. If the transfer ends before the sequence does, the task is
    /// cancelled. If the sequence throws an error, the operation fails with that error and is not retried.
    ///
    /// The body can be sent once. If a redirect, a retry or a pause requires it again, the operation fails with
    /// `URLError.requestBodyStreamExhausted`, or keeps the redirect as its response. See ``setBody(length:making:)``.
    ///
    /// A GET becomes a POST. The content type is `application/octet-stream`, unless a header specifies it. Use the
    /// request with Convoy's operations and sessions.
    ///
    /// - Parameters:
    ///   - pieces: The body. Empty elements are ignored.
    ///   - length: The total number of bytes; the operation fails if the sequence has more or fewer. If nil, the body
    ///     is sent in chunks (RFC 9112, section 7.1).
    /// - Throws: An `NSError` in `URLRequestSerializationErrorDomain` for a negative length.
    public mutating func setBody<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces, length: Int64? = nil) throws
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        self = try HTTPRequestSerializer.request(self, sending: .sequence(pieces, length: length))
    }

    /// Sets a body that can be sent again after a redirect, a challenge, a pause or a failure, with a new sequence of
    /// the same elements each time.
    ///
    /// - Parameters:
    ///   - length: The number of bytes; nil if unknown.
    ///   - make: A closure that creates the sequence. It is called in the task that iterates over the sequence; an
    ///     error that it throws fails the operation.
    /// - Throws: The same errors as ``setBody(_:length:)``.
    public mutating func setBody<Pieces: AsyncSequence & SendableMetatype>(
        length: Int64? = nil, making make: @escaping @Sendable () throws -> Pieces
    ) throws
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        self = try HTTPRequestSerializer.request(self, sending: .sequence(length: length, making: make))
    }
}

extension RequestBody {
    /// Returns the body for a sequence that can be iterated over once.
    static func sequence<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces, length: Int64?) -> RequestBody
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        .ownStream(SequenceBodyStream(SequencePump { pieces }), length: length)
    }

    /// Returns the body for a sequence that can be created again.
    static func sequence<Pieces: AsyncSequence & SendableMetatype>(
        length: Int64?, making make: @escaping @Sendable () throws -> Pieces
    ) -> RequestBody
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        .ownStream(ReplayableSequenceBodyStream { SequencePump(make) }, length: length)
    }
}
