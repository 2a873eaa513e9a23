import ConvoyTransport
import Foundation
import FoundationNetworking

/// The network services that an operation needs: connections, and the thread on which their delegates are called.
///
/// Tests replace it with a simulated network.
package protocol Transport: AnyObject, Sendable {
    /// Creates a connection without starting it.
    func connection(
        for request: consuming TransferRequest, configuration: consuming ConnectionConfiguration,
        delegate: any ConnectionDelegate
    ) -> any Connection

    /// Runs a block on the thread on which the delegates are called.
    func perform(_ block: @escaping @Sendable () -> Void)

    /// Runs a block on the thread on which the delegates are called, or throws if that is not possible.
    func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError)

    /// Whether the library's other network threads may do the work of this transport.
    var isOfLibrary: Bool { get }

    /// Waits until file descriptors are available, if that can be awaited, then calls `then` once.
    func awaitDescriptors(
        after earlier: DescriptorWait?, while isWanted: @escaping @Sendable () -> Bool,
        then: @escaping @Sendable (DescriptorWait) -> Void)
}

extension Transport {
    package var isOfLibrary: Bool { false }

    package func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) { perform(block) }

    package func awaitDescriptors(
        after earlier: DescriptorWait?, while isWanted: @escaping @Sendable () -> Bool,
        then: @escaping @Sendable (DescriptorWait) -> Void
    ) {
        then(.impossible)
    }
}

extension NetworkThread: Transport {
    package var isOfLibrary: Bool { true }

    package func connection(
        for request: consuming TransferRequest, configuration: consuming ConnectionConfiguration,
        delegate: any ConnectionDelegate
    ) -> any Connection {
        RequestChain(request, configuration: configuration, delegate: delegate, thread: self)
    }

    package func perform(_ block: @escaping @Sendable () -> Void) {
        let _: Bool = perform(block)
    }

    package func performOrFail(_ block: @escaping @Sendable () -> Void) throws(URLError) {
        let isPerformed: Bool = perform(block)
        if !isPerformed { throw failure ?? URLError(.cannotLoadFromNetwork) }
    }
}
