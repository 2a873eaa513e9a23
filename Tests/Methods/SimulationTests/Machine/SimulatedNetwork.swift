import ConvoySupport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations
@testable import ConvoyTransport

/// A network whose servers take a step when the machine picks them.
final class SimulatedNetwork: Transport, @unchecked Sendable {
    let machine: Machine
    let thread: Machine.Thread
    private(set) var connections: [SimulatedConnection] = []
    fileprivate var requestCount = 0
    /// Called with each connection that is started. Returns the events of its server.
    var willConnect: (SimulatedConnection) -> (URLRequest) -> [SimulatedConnection.Event] = { _ in { _ in [] } }
    /// A closure that is called with a request that a server has received.
    var didArrive: (SimulatedConnection) -> Void = { _ in }

    init(_ machine: Machine) {
        self.machine = machine
        thread = machine.makeThread("network")
    }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        let made = SimulatedConnection(request.urlRequest, configuration, delegate, self)
        connections.append(made)
        return made
    }

    func perform(_ block: @escaping @Sendable () -> Void) { machine.append(block, to: thread) }

    /// Releases all connections.
    func forget() { connections = [] }
}

/// A simulated transfer, whose consecutive events are separate steps of the network's thread.
final class SimulatedConnection: Connection, StepSource, @unchecked Sendable {
    /// The next event of a server.
    enum Event {
        case head(Int, [(String, String)])
        case data(Data)
        /// Redirects the client to another host.
        case redirect(String)
        case finish
        case fail(URLError.Code, [String: Any])
    }

    let originalRequest: URLRequest
    private let configuration: ConnectionConfiguration
    private var delegate: (any ConnectionDelegate)?
    private var script: (URLRequest) -> [Event] = { _ in [] }
    /// The operation whose request the connection carries.
    private(set) weak var operation: URLConnectionOperation?
    private unowned let network: SimulatedNetwork
    private var request: URLRequest
    private var events: [Event] = []
    private(set) var isStarted = false
    private(set) var isEnded = false
    private(set) var startCount = 0
    private(set) var isCancelled = false
    private var isDeciding = false
    private var suspensions = 0
    private var isSuspended = false
    private var isPaused = false
    private(set) var followed = 0
    /// The number of requests whose metrics were collected.
    private(set) var collected = 0
    /// The metrics of the current request, if they are collected.
    private var metrics: TransactionMetrics?

    init(
        _ request: URLRequest, _ configuration: ConnectionConfiguration, _ delegate: any ConnectionDelegate,
        _ network: SimulatedNetwork
    ) {
        (originalRequest, self.request, self.configuration) = (request, request, configuration)
        (self.delegate, self.network) = (delegate, network)
        operation = (delegate as? Attempt)?.operation
    }

    var isUnderWay: Bool { startCount > 0 && !isEnded }

    // MARK: For the operation

    func start() {
        startCount += 1
        script = network.willConnect(self)
        network.perform { self.begin() }
    }

    func cancel() { network.perform { self.stop() } }

    func suspendReceiving() {
        suspensions += 1
        isSuspended = true
    }

    func resumeReceiving() {
        let count = suspensions
        network.perform { if self.suspensions == count { self.isSuspended = false } }
    }

    func pause() -> Bool {
        guard originalRequest.httpMethod == "POST", isStarted else {
            stop()
            return false
        }
        isPaused = true
        return true
    }

    func resume() { isPaused = false }

    private func begin() {
        guard !isStarted, !isEnded else { return }
        isStarted = true
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        send()
        events = script(request)
        if !events.isEmpty { network.machine.add(self) }
    }

    private func stop() {
        isCancelled = true
        guard isStarted else { return }
        end { $0.connectionDidCancel(self) }
    }

    private func end(_ tell: (any ConnectionDelegate) -> Void) {
        guard !isEnded else { return }
        collect()
        isEnded = true
        events = []
        if let told = delegate.take() { tell(told) }
    }

    // MARK: Metrics

    private func send() {
        guard configuration.collectsMetrics, let url = request.url, let header = try? RequestHeader(fields: [:]) else {
            return
        }
        network.requestCount += 1
        let (method, address) = (request.httpMethod ?? "GET", url.absoluteString)
        metrics = TransactionMetrics(
            method: method, address: address, secrets: .standard,
            startDate: Date(timeIntervalSince1970: TimeInterval(network.requestCount)))
        delegate?.connection(
            self,
            willSend: RequestHead(method: method, address: address, header: header, bodyLength: 0, secrets: .standard))
    }

    private func collect() {
        guard let metrics = metrics.take() else { return }
        collected += 1
        delegate?.connection(self, didCollect: metrics, of: nil)
    }

    // MARK: The server

    var name: String { "server: \(request.url?.host ?? "")\(request.url?.path ?? "")" }
    var thread: Machine.Thread { network.thread }
    var isOver: Bool { isEnded }
    var canStep: Bool {
        guard !isEnded, !isDeciding, !isPaused, let next = events.first else { return false }
        if isSuspended, case .data = next { return false }
        if isSuspended, case .finish = next { return false }
        return true
    }

    func step() {
        guard let url = request.url else { return }
        let event = events.removeFirst()
        switch event {
        case .head(let status, let headers):
            network.didArrive(self)
            delegate?.connection(self, didReceive: ResponseHead(url: url, statusCode: status, headers: headers), after: nil)
        case .data(let data): data.withUnsafeBytes { delegate?.connection(self, didReceive: $0) }
        case .redirect(let host):
            network.didArrive(self)
            redirect(url, to: host)
        case .finish: end { $0.connectionDidFinish(self) }
        case .fail(let code, var userInfo):
            userInfo[NSURLErrorFailingURLErrorKey] = url
            end { $0.connection(self, didFailWith: URLError(code, userInfo: userInfo)) }
        }
    }

    private func redirect(_ url: URL, to host: String) {
        let head = ResponseHead(
            url: url, statusCode: 307, headers: [("Location", "http://\(host)\(url.path)"), ("Content-Length", "0")])
        let verdict = RedirectRules(configuration).evaluate(head, to: request, followed: followed)
        guard case .follow(let redirect) = verdict else { return }
        isDeciding = true
        delegate?.connection(self, willFollow: redirect) { [self] next in
            network.perform { [self] in
                guard !isEnded else { return }
                isDeciding = false
                delegate?.connection(self, didHandle: redirect.event)
                collect()
                guard let next else {
                    events = [.finish]
                    return delegate?.connection(self, didReceive: head, after: nil) ?? ()
                }
                followed += 1
                request = next
                send()
                events = script(next)
            }
        }
    }
}
