import ConvoySerialization
import Foundation
import FoundationNetworking

/// Bodies that are produced while they are sent.
extension URLRequest {
    /// Makes an asynchronous sequence the body: pieces of bytes, `Data` or `[UInt8]` for instance, that are sent one after
    /// the other.
    ///
    /// ```swift
    /// var request = URLRequest(url: url)
    /// request.httpMethod = "POST"
    /// try request.setBody(lines.map { Data(($0 + "\n").utf8) })
    /// ```
    ///
    /// The sequence is iterated over in a task of its own, and not faster than the network takes its pieces: the next one is
    /// asked for while the last one is sent. When the transfer ends before it does, the task is cancelled. An error that it
    /// throws fails the operation with that error, and is not retried.
    ///
    /// It can be sent once: where a redirect, a retry or a pause asks for it again, the operation fails with
    /// `URLError.requestBodyStreamExhausted`, or keeps the redirect as its response. See ``setBody(length:making:)``.
    ///
    /// A GET becomes a POST. The content type is `application/octet-stream`, unless a header says otherwise. To be used with Convoy's operations
    /// and sessions.
    ///
    /// - Parameters:
    ///   - pieces: the body. Empty pieces count for nothing.
    ///   - length: how many bytes there will be; the operation fails where there are more or less. With nil the body is sent
    ///     in chunks (RFC 9112, section 7.1).
    /// - Throws: an `NSError` in `URLRequestSerializationErrorDomain` for a length below 0.
    public mutating func setBody<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces, length: Int64? = nil) throws
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        self = try HTTPRequestSerializer.request(self, sending: .sequence(pieces, length: length))
    }

    /// The same for a body that can be sent again, after a redirect, a challenge, a pause or a failure: with another
    /// sequence of the same pieces each time.
    ///
    /// - Parameters:
    ///   - length: the number of bytes; nil if unknown.
    ///   - make: makes the sequence. Called in the task that iterates over it; an error that it throws fails the
    ///     operation.
    /// - Throws: as ``setBody(_:length:)``.
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
    /// A sequence that can be iterated over once.
    static func sequence<Pieces: AsyncSequence & Sendable>(_ pieces: Pieces, length: Int64?) -> RequestBody
    where
        Pieces.Element: Collection & Sendable, Pieces.Element.Element == UInt8,
        Pieces.AsyncIterator: SendableMetatype
    {
        .ownStream(SequenceBodyStream(SequencePump { pieces }), length: length)
    }

    /// A sequence that can be made anew.
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
