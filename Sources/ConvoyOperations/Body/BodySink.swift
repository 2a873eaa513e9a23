import ConvoyTransport
import Foundation
import FoundationNetworking

/// Where the bytes of a response's body go. Belongs to whoever runs the work of an operation: the network thread
/// while a connection is open, the thread that begins the work before that.
protocol BodySink: AnyObject {
    /// How many bytes of the body are kept so far.
    var offset: Int64 { get }

    /// The body, for a sink in memory.
    var data: Data? { get }

    /// Makes ready for bytes. Called before each try.
    func open() throws(URLError)

    /// How many bytes are going to come, if the server said.
    func expect(_ count: Int64)

    /// Takes bytes. When the result is `.later`, no more may come until `whenReady` is called.
    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) -> SinkState

    /// Starts over: forgets all bytes.
    func rewind() throws(URLError)

    /// No bytes come any more. `then` is called, on the network thread or at once, when what was written is where it
    /// belongs, or with the reason why it is not. Called once the operation ends, however that is.
    func close(then: @escaping (URLError?) -> Void)
}

enum SinkState { case ready, later }

/// Keeps the body in memory.
final class MemorySink: BodySink {
    private var bytes = Data()

    var offset: Int64 { Int64(bytes.count) }
    var data: Data? { bytes }

    func open() {}

    func expect(_ count: Int64) {
        // A server's word is not worth more memory than this.
        if count > 4096, count <= 64 << 20 { bytes.reserveCapacity(Int(count)) }
    }

    func write(_ block: UnsafeRawBufferPointer) -> SinkState {
        if bytes.isEmpty, block.count <= 4096, let base = block.baseAddress {
            bytes = Data(bytes: base, count: block.count)
        } else {
            bytes.append(contentsOf: block)
        }
        return .ready
    }

    func rewind() { bytes = Data() }

    func close(then: @escaping (URLError?) -> Void) { then(nil) }
}
