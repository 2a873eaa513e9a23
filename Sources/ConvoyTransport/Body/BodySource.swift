import Foundation

/// The source of a request's body. Belongs to the network thread.
protocol BodySource: AnyObject {
    /// The length of the body; nil if it is unknown, so that the body is sent in chunks.
    var length: Int64? { get }

    /// Fills the buffer with the next bytes. After `.notNow`, `whenReady` will be called.
    func fill(_ buffer: UnsafeMutableRawBufferPointer) -> BodySupply

    /// Starts over from the first byte. False if that is impossible.
    func rewind() -> Bool

    /// Called on the network thread when there are bytes after a `.notNow`.
    var whenReady: (() -> Void)? { get set }

    /// Stops reading: no more bytes are needed.
    func stop()
}

enum BodySupply {
    /// This many bytes; 0 means that the body has ended.
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
