import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The network thread of a session. Its operations refer to this, and not to the thread, so that the thread ends with the
/// session, and with it all connections, whoever keeps the operations.
final class SessionTransport: Transport {
    private let thread: Locked<NetworkThread?>

    init(_ thread: NetworkThread) { self.thread = Locked(thread) }

    /// Lets go of the thread. What comes later, which only an operation can be that has nothing to send, goes to the thread
    /// that all share.
    func close() {
        let old = thread.withLock { $0.take() }
        withExtendedLifetime(old) {}
    }

    private var current: NetworkThread { thread.withLock { $0 } ?? .shared }

    func connection(
        for request: URLRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        current.connection(for: request, configuration: configuration, delegate: delegate)
    }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        current.connection(for: request, configuration: configuration, delegate: delegate)
    }

    func perform(_ block: @escaping @Sendable () -> Void) {
        let _: Bool = current.perform(block)
    }

    func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) { try current.performOrFail(block) }

    var coalescing: any Transport { current.coalescing }

    var isOfLibrary: Bool { true }
}
