import Foundation
import Synchronization

/// A stream of which `length` bytes are sent as a part.
final class StreamSource {
    let length: Int64
    private let stream: InputStream?
    private let make: (@Sendable () throws -> InputStream)?
    private let isTaken = Atomic(false)

    init(_ stream: InputStream, length: Int64) {
        self.stream = stream
        self.length = length
        make = nil
    }

    init(length: Int64, making make: @escaping @Sendable () throws -> InputStream) {
        stream = nil
        self.length = length
        self.make = make
    }

    /// An unopened stream to read from the start. A plain stream is returned only once, as it can be read only once.
    func take() throws -> InputStream {
        if let make { return try make() }
        guard let stream, !isTaken.exchange(true, ordering: .acquiringAndReleasing) else {
            if let stream = stream as? any ReplayableBodyStream { return try stream.replay() }
            throw StreamSource.exhausted("A part of the form comes from a stream, which was read already.")
        }
        return stream
    }

    /// Throws if ``take()`` would throw.
    func checkAvailable() throws {
        guard make == nil, !(stream is any ReplayableBodyStream), isTaken.load(ordering: .acquiring) else { return }
        throw StreamSource.exhausted("A part of the form comes from a stream, which was read already.")
    }

    static func exhausted(_ reason: String, underlying: (any Error)? = nil) -> NSError {
        .request(.invalidPart, reason, code: NSURLErrorRequestBodyStreamExhausted, underlying: underlying)
    }
}
