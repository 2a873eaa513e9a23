import ConvoySupport
import Foundation

/// The delivery of a stored response. Its mutable state belongs to the network thread.
final class Replay: @unchecked Sendable {
    /// How many bytes are read or delivered at once.
    private static let portion = 256 << 10

    let stored: any ServableResponse
    /// The body, if it is in memory. A part of a body is copied out of it, once.
    private let memory: [UInt8]?
    private(set) var position = 0
    /// What was read and is to be delivered next.
    private var chunk: [UInt8]?
    private(set) var isReading = false
    /// When the cache was asked; nil if nobody wants to know, and once its metrics were told.
    @exclusivity(unchecked) var start: StartMoment?
    /// Whether the delegate has been told of the response.
    var hasBegun = false

    init(_ stored: any ServableResponse) {
        self.stored = stored
        memory = stored.bytes
    }

    var isAtEnd: Bool { position >= stored.length }

    /// The status of the response, once it was delivered.
    var statusCode: Int? { hasBegun ? stored.head.statusCode : nil }

    /// Whether bytes can be delivered without reading a file.
    var hasBytes: Bool { chunk != nil || memory != nil }

    /// Passes on the next bytes, which must be there.
    func deliver(to receiver: (UnsafeRawBufferPointer) -> Void) {
        if let chunk {
            self.chunk = nil
            position += chunk.count
            chunk.withUnsafeBytes(receiver)
        } else if let bytes = memory {
            let start = min(position, bytes.count)
            let end = min(stored.length, bytes.count, start + Self.portion)
            position = end > start ? end : stored.length
            bytes.withUnsafeBytes { receiver(UnsafeRawBufferPointer(rebasing: $0[start..<end])) }
        }
    }

    /// Reads the next bytes. `then` is called on a queue of the cache with what to do on the network thread: it returns
    /// the error if the bytes cannot be had.
    func read(_ then: @escaping @Sendable (Result<[UInt8], any Error>) -> Void) {
        isReading = true
        stored.read(at: position, count: min(Self.portion, stored.length - position), then)
    }

    /// Takes what was read.
    func take(_ bytes: [UInt8]) {
        isReading = false
        chunk = bytes
    }
}
