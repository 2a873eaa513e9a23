import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// A simulated network with its own queue. Its transfers end when the test ends them, on the calling thread.
final class ThreadedTransport: Transport, Sendable {
    static let body = Data("the body".utf8)

    private struct State {
        var connections: [ThreadedConnection] = []
        var isServing = false
        var isSlowToCancel = false
    }

    let queue = DispatchQueue(label: "network")
    private let state = Locked(State())

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        let connection = ThreadedConnection(request: request.urlRequest, delegate: delegate, network: self)
        state.withLock { $0.connections.append(connection) }
        return connection
    }

    func perform(_ block: @escaping @Sendable () -> Void) { queue.async(execute: block) }

    /// Ends the running transfer, if any, and returns when its delegate was called.
    func end(with error: URLError? = nil) {
        queue.sync {
            for connection in state.withLock({ $0.connections }) { connection.finish(with: error) }
        }
    }

    /// Delivers the response to the running transfer, but not its end.
    func respond() {
        queue.sync {
            for connection in state.withLock({ $0.connections }) { connection.respond() }
        }
    }

    /// Ends a transfer as cancelled, although it was not cancelled.
    func cancelUnasked() {
        queue.sync {
            for connection in state.withLock({ $0.connections }) { connection.finishAsCancelled() }
        }
    }

    /// Lets each transfer succeed automatically from now on.
    func serve() {
        queue.sync {
            state.withLock { $0.isServing = true }
            for connection in state.withLock({ $0.connections }) { connection.goOn() }
        }
    }

    /// Delays the end of cancelled transfers until all transfers are served.
    func beSlowToCancel() { state.withLock { $0.isSlowToCancel = true } }

    fileprivate var isServing: Bool { state.withLock { $0.isServing } }
    fileprivate var isSlowToCancel: Bool { state.withLock { $0.isSlowToCancel } }

    /// The number of running transfers.
    var openCount: Int { queue.sync { state.withLock { $0.connections }.filter(\.isOpen).count } }
    var connectionCount: Int { state.withLock { $0.connections.count } }
}

final class ThreadedConnection: Connection, @unchecked Sendable {
    // All mutable state belongs to the network's queue.
    let originalRequest: URLRequest
    private var delegate: (any ConnectionDelegate)?
    private let network: ThreadedTransport
    private var isStarted = false
    private var isCancelled = false
    private var hasResponded = false
    private var isEnded = false

    init(request: URLRequest, delegate: any ConnectionDelegate, network: ThreadedTransport) {
        originalRequest = request
        self.delegate = delegate
        self.network = network
    }

    var isOpen: Bool { isStarted && !isEnded }

    func start() {
        network.queue.async { [self] in
            isStarted = true
            goOn()
        }
    }

    func cancel() {
        network.queue.async { [self] in
            isCancelled = true
            goOn()
        }
    }

    func suspendReceiving() {}
    func resumeReceiving() {}

    func goOn() {
        if isCancelled, !network.isSlowToCancel || network.isServing { return finishAsCancelled() }
        if network.isServing { finish(with: nil) }
    }

    func finishAsCancelled() { end { $0.connectionDidCancel(self) } }

    func finish(with error: URLError?) {
        guard isOpen else { return }
        if let error { return end { $0.connection(self, didFailWith: error) } }
        respond()
        end { $0.connectionDidFinish(self) }
    }

    func respond() {
        guard isOpen, !hasResponded else { return }
        hasResponded = true
        let url = originalRequest.url ?? URL(fileURLWithPath: "/")
        let body = ThreadedTransport.body
        delegate?.connection(
            self, didReceive: ResponseHead(url: url, statusCode: 200, headers: [("Content-Length", "\(body.count)")]),
            after: nil)
        body.withUnsafeBytes { delegate?.connection(self, didReceive: $0) }
    }

    private func end(_ tell: (any ConnectionDelegate) -> Void) {
        guard isOpen else { return }
        isEnded = true
        let told = delegate
        delegate = nil
        if let told { tell(told) }
    }
}
