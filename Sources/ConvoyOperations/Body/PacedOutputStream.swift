import ConvoyTransport
import Foundation

/// An output stream that is read by somebody who may be slower than the network. All members are called on the network
/// thread.
package protocol PacedOutputStream: DirectOutputStream {
    /// A response was accepted, and its body comes next.
    func accept(_ response: ResponseHead)

    /// Whether the transfer is to wait, because the reader has enough for now. If so, `then` is called once when there is
    /// room again, on any thread.
    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool
}
