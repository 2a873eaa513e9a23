import ConvoyTransport
import Foundation
import FoundationNetworking

/// Where the bytes of a response's body go.
///
/// It belongs to the network thread once it is open. What may take its time is finished later: `then` is called at
/// once, where nothing had to be waited for, or on the network thread. Until it is, nothing else may be asked for.
protocol BodySink: AnyObject {
    /// How many bytes of the body are kept so far.
    var offset: Int64 { get }

    /// The body, for a sink in memory.
    var data: Data? { get }

    /// Whether something that was asked for is not finished.
    var isBusy: Bool { get }

    /// Makes ready for bytes, and leaves what is there alone. Called before each try, on any thread.
    func open(then: @escaping @Sendable (URLError?) -> Void)

    /// How many bytes are going to come, if the server said.
    func expect(_ count: Int64)

    /// Takes bytes.
    func write(_ bytes: UnsafeRawBufferPointer, then: @escaping (URLError?) -> Void)

    /// Starts over: forgets all bytes.
    func rewind(then: @escaping (URLError?) -> Void)

    /// No bytes come any more. `then` hears whether what was written is where it belongs. Called once the operation
    /// ends, however that is, on any thread.
    func close(then: @escaping (URLError?) -> Void)
}
