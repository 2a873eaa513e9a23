import ConvoySupport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations
@testable import ConvoyTransport

/// What a server does with a request.
enum Answer: String, Codable, CaseIterable, Sendable {
    /// The whole body, or the part that is asked for, in two pieces.
    case whole
    /// The connection is lost behind the first piece.
    case lost
    /// Nothing was sent: the connection was closed before.
    case unsent
    case refused
    /// A 503 with a `Retry-After`.
    case busy
    /// A redirect to another host, which answers.
    case moved
    /// A challenge.
    case asks
    /// A body that is not what the serializer takes.
    case broken
    /// Nothing, ever.
    case silent
}

/// A network whose servers take a step when the machine picks them.
final class SimulatedNetwork: Transport, @unchecked Sendable {
    let machine: Machine
    let thread: Machine.Thread
    private(set) var connections: [SimulatedConnection] = []
    /// Called with each connection that is started. Returns what that meets.
    var willConnect: (SimulatedConnection) -> Answer = { _ in .whole }
    /// Called with a request that a server has seen.
    var didArrive: (SimulatedConnection) -> Void = { _ in }

    init(_ machine: Machine) {
        self.machine = machine
        thread = machine.makeThread("network")
    }

    func connection(
        for request: URLRequest, configuration: ConnectionConfiguration, delegate: any URLConnectionDelegate
    ) -> any Connection {
        let made = SimulatedConnection(request, configuration, delegate, self)
        connections.append(made)
        return made
    }

    func perform(_ block: @escaping @Sendable () -> Void) { machine.append(block, to: thread) }

    /// Releases all connections.
    func forget() { connections = [] }
}

/// A transfer as its delegate sees it: what follows one after the other is a step of the network's thread each.
final class SimulatedConnection: Connection, StepSource, @unchecked Sendable {
    private enum Event {
        case head(Int, [(String, String)])
        case data(Data)
        case redirect
        case finish
        case fail(URLError.Code, [String: Any])
    }

    let originalRequest: URLRequest
    private let configuration: ConnectionConfiguration
    private var delegate: (any URLConnectionDelegate)?
    private var answer = Answer.whole
    /// The operation whose request it carries.
    private(set) weak var operation: URLConnectionOperation?
    private unowned let network: SimulatedNetwork
    private var request: URLRequest
    private var events: [Event] = []
    private(set) var isStarted = false
    private(set) var isEnded = false
    private(set) var startCount = 0
    private var isCancelled = false
    private var isDeciding = false
    private var suspensions = 0
    private var isSuspended = false
    private var followed = 0

    init(
        _ request: URLRequest, _ configuration: ConnectionConfiguration, _ delegate: any URLConnectionDelegate,
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
        answer = network.willConnect(self)
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

    private func begin() {
        guard !isStarted, !isEnded else { return }
        isStarted = true
        if isCancelled { return end { $0.connectionDidCancel(self) } }
        events = script()
        if !events.isEmpty { network.machine.add(self) }
    }

    private func stop() {
        isCancelled = true
        guard isStarted else { return }
        end { $0.connectionDidCancel(self) }
    }

    private func end(_ tell: (any URLConnectionDelegate) -> Void) {
        guard !isEnded else { return }
        isEnded = true
        events = []
        if let told = delegate.take() { tell(told) }
    }

    // MARK: The server

    /// What a server's resource is.
    static func body(of url: URL?) -> Data { Data("[\"\(url?.path ?? "")\", 1, 2, 3]".utf8) }
    static let tag = "\"v1\""

    private func script() -> [Event] {
        switch answer {
        case .whole: return response()
        case .lost: return Array(response().prefix(2)) + [.fail(.networkConnectionLost, [:])]
        case .unsent: return [.fail(.networkConnectionLost, [URLError.nothingWasSentKey: true])]
        case .refused: return [.fail(.cannotConnectToHost, [:])]
        case .busy: return [.head(503, [("Retry-After", "1"), ("Content-Length", "0")]), .finish]
        case .moved: return [.redirect]
        case .asks:
            return [
                .head(401, [("WWW-Authenticate", "Basic realm=\"r\""), ("Content-Length", "2")]), .data(Data("no".utf8)),
                .finish,
            ]
        case .broken:
            return [
                .head(200, [("Content-Type", "application/json"), ("Content-Length", "3")]), .data(Data("[1,".utf8)),
                .finish,
            ]
        case .silent: return []
        }
    }

    private func response() -> [Event] {
        var body = Self.body(of: request.url)
        var status = 200
        var headers = [("ETag", Self.tag), ("Content-Type", "application/json")]
        if let range = request.value(forHTTPHeaderField: "Range"),
            let offset = Int(range.dropFirst("bytes=".count).dropLast()), offset > 0, offset < body.count,
            request.value(forHTTPHeaderField: "If-Range") == Self.tag
        {
            status = 206
            headers.append(("Content-Range", "bytes \(offset)-\(body.count - 1)/\(body.count)"))
            body = Data(body.dropFirst(offset))
        }
        headers.append(("Content-Length", "\(body.count)"))
        let half = body.count / 2
        return [.head(status, headers), .data(Data(body.prefix(half))), .data(Data(body.dropFirst(half))), .finish]
    }

    var name: String { "server: \(request.url?.host ?? "")\(request.url?.path ?? "")" }
    var thread: Machine.Thread { network.thread }
    var isOver: Bool { isEnded }
    var canStep: Bool {
        guard !isEnded, !isDeciding, let next = events.first else { return false }
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
            delegate?.connection(self, didReceive: ResponseHead(url: url, statusCode: status, headers: headers))
        case .data(let data): data.withUnsafeBytes { delegate?.connection(self, didReceive: $0) }
        case .redirect:
            network.didArrive(self)
            redirect(url)
        case .finish: end { $0.connectionDidFinish(self) }
        case .fail(let code, var userInfo):
            userInfo[NSURLErrorFailingURLErrorKey] = url
            end { $0.connection(self, didFailWith: URLError(code, userInfo: userInfo)) }
        }
    }

    private func redirect(_ url: URL) {
        let head = ResponseHead(
            url: url, statusCode: 307, headers: [("Location", "http://other.test\(url.path)"), ("Content-Length", "0")])
        let verdict = RedirectRules(configuration).evaluate(head, to: request, followed: followed)
        guard case .follow(let redirect) = verdict else { return }
        isDeciding = true
        delegate?.connection(self, willFollow: redirect) { [self] next in
            network.perform { [self] in
                guard !isEnded else { return }
                isDeciding = false
                delegate?.connection(self, didHandle: redirect.event)
                guard let next else {
                    events = [.finish]
                    return delegate?.connection(self, didReceive: head) ?? ()
                }
                followed += 1
                request = next
                events = response()
            }
        }
    }
}
