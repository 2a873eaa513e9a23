import ConvoyTransport
import Foundation
import FoundationNetworking

/// What an operation needs of the network: connections, and the one thread that calls back.
///
/// The narrow place at which a simulated network and a simulated clock can stand in for the real one.
package protocol Transport: Sendable {
    /// A connection that has not begun.
    func connection(
        for request: URLRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection

    /// Runs a block where the delegates are called.
    func perform(_ block: @escaping @Sendable () -> Void)

    /// The same, with one transfer for identical requests.
    var coalescing: any Transport { get }
}

extension Transport {
    package var coalescing: any Transport { self }
}

extension NetworkThread: Transport {
    package var coalescing: any Transport { CoalescingTransport.shared }

    package func connection(
        for request: URLRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        URLConnection(request: request, configuration: configuration, delegate: delegate, thread: self)
    }

    package func perform(_ block: @escaping @Sendable () -> Void) {
        let _: Bool = perform(block)
    }
}
