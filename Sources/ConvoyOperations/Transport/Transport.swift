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

    /// The same for a request in whatever form it is there.
    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection

    /// Runs a block where the delegates are called.
    func perform(_ block: @escaping @Sendable () -> Void)

    /// The same, or nothing: then this says why.
    func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError)

    /// The same transport, with one transfer for identical requests.
    var coalescing: any Transport { get }
}

extension Transport {
    package var coalescing: any Transport { self }

    package func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        connection(for: request.urlRequest, configuration: configuration, delegate: delegate)
    }

    package func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) { perform(block) }
}

extension NetworkThread: Transport {
    package var coalescing: any Transport {
        companion.withLock { companion in
            if let transport = companion.object as? CoalescingTransport { return transport }
            let transport = CoalescingTransport(base: self)
            companion.object = transport
            return transport
        }
    }

    package func connection(
        for request: URLRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        URLConnection(request: request, configuration: configuration, delegate: delegate, thread: self)
    }

    package func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        URLConnection(request, configuration: configuration, delegate: delegate, thread: self)
    }

    package func perform(_ block: @escaping @Sendable () -> Void) {
        let _: Bool = perform(block)
    }

    package func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) {
        let isPerformed: Bool = perform(block)
        if !isPerformed { throw failure ?? URLError(.cannotLoadFromNetwork) }
    }
}
