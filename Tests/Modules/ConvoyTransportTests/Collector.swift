import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A delegate that records all calls, and that can wait for the end of the transfer.
final class Collector: ConnectionDelegate {
    enum End: Sendable {
        case finished
        case failed(URLError)
        case cancelled
    }

    struct Heard: Sendable {
        var heads: [ResponseHead] = []
        var body = Data()
        var sent: Int64 = 0
        var redirects: [Redirect] = []
        var events: [RedirectEvent] = []
        var metrics: [TransactionMetrics] = []
        var ends: [End] = []
    }

    private let heard = Locked(Heard())
    let ended = DispatchSemaphore(value: 0)
    /// A closure that decides about a redirect; nil to follow it.
    private let decision: (@Sendable (Redirect, @escaping @Sendable (URLRequest?) -> Void) -> Void)?
    private let onData: (@Sendable (any Connection) -> Void)?
    private let onFailure: (@Sendable (any Connection) -> Void)?
    private let onHead: (@Sendable (any Connection) -> Void)?

    init(
        onHead: (@Sendable (any Connection) -> Void)? = nil,
        onData: (@Sendable (any Connection) -> Void)? = nil, onFailure: (@Sendable (any Connection) -> Void)? = nil,
        decision: (@Sendable (Redirect, @escaping @Sendable (URLRequest?) -> Void) -> Void)? = nil
    ) {
        self.onData = onData
        self.onFailure = onFailure
        self.onHead = onHead
        self.decision = decision
    }

    func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {
        heard.withLock { $0.heads.append(response) }
        onHead?(connection)
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        let bytes = Data(data)
        heard.withLock { $0.body.append(bytes) }
        onData?(connection)
    }

    func connection(_ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?) {
        heard.withLock { $0.sent = total }
    }

    func connection(
        _ connection: any Connection, willFollow redirect: Redirect, decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        heard.withLock { $0.redirects.append(redirect) }
        if let decision { decision(redirect, decide) } else { decide(redirect.request) }
    }

    func connection(_ connection: any Connection, didHandle redirect: RedirectEvent) {
        heard.withLock { $0.events.append(redirect) }
    }

    func connection(_ connection: any Connection, didCollect metrics: TransactionMetrics, of head: ResponseHead?) {
        heard.withLock { $0.metrics.append(metrics) }
    }

    func connectionDidFinish(_ connection: any Connection) { end(.finished) }
    func connection(_ connection: any Connection, didFailWith error: URLError) {
        onFailure?(connection)
        end(.failed(error))
    }
    func connectionDidCancel(_ connection: any Connection) { end(.cancelled) }

    private func end(_ how: End) {
        heard.withLock { $0.ends.append(how) }
        ended.signal()
    }

    /// Returns all recorded calls once the transfer has ended; nil if it did not end.
    func wait(within seconds: Double = 100) -> Heard? {
        guard ended.wait(timeout: .now() + seconds) == .success else { return nil }
        return heard.withLock { $0 }
    }

    var heardSoFar: Heard { heard.withLock { $0 } }
    var body: Data { heard.withLock { $0.body } }
}

extension Collector.Heard {
    var error: URLError? {
        if case .failed(let error) = ends.first { return error }
        return nil
    }

    var isFinished: Bool {
        if case .finished = ends.first { return ends.count == 1 }
        return false
    }

    var text: String { String(decoding: body, as: UTF8.self) }
}

/// Loads a request and returns the recorded calls; nil if the transfer did not end.
func load(
    _ request: URLRequest, configuration: ConnectionConfiguration = ConnectionConfiguration(),
    thread: NetworkThread = .shared, delegate: Collector = Collector()
) -> Collector.Heard? {
    RequestChain(request: request, configuration: configuration, delegate: delegate, thread: thread).start()
    return delegate.wait()
}

func load(_ url: URL, timeout: TimeInterval = 15) -> Collector.Heard? {
    var request = URLRequest(url: url)
    request.timeoutInterval = timeout
    return load(request)
}
