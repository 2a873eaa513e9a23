import Foundation

/// Where the bytes of a request's body come from. Belongs to the network thread.
protocol BodySource: AnyObject {
    /// How many bytes there are; nil where nobody knows, and the body is sent in chunks.
    var length: Int64? { get }

    /// Fills the buffer with what comes next. `.notNow` promises a call of `whenReady` later.
    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> BodySupply

    /// Starts over from the first byte. False where that cannot be.
    func rewind() -> Bool

    /// Called on the network thread when bytes have come after a `.notNow`.
    var whenReady: (() -> Void)? { get set }

    /// No more bytes are wanted.
    func stop()
}

enum BodySupply {
    /// So many bytes; none means that the body has ended.
    case bytes(Int)
    case notNow
    case failed(URLError)
}

/// A body in memory.
final class DataBody: BodySource {
    private let data: Data
    private var position: Int
    var whenReady: (() -> Void)?

    init(_ data: Data) {
        self.data = data
        position = data.startIndex
    }

    var length: Int64? { Int64(data.count) }

    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> BodySupply {
        let count = min(buffer.count, data.endIndex - position)
        guard count > 0 else { return .bytes(0) }
        data.copyBytes(to: buffer, from: position..<(position + count))
        position += count
        return .bytes(count)
    }

    func rewind() -> Bool {
        position = data.startIndex
        return true
    }

    func stop() {}
}
