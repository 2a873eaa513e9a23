import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// A simulated network in which the test takes every step.
final class SimulatedTransport: Transport, Sendable {
    struct State {
        var connections: [SimulatedConnection] = []
        var blocks: [@Sendable () -> Void] = []
    }

    /// The server's resource, which a test may change at any time.
    struct Resource: Sendable {
        var body = Data()
        var tag: String? = "\"v0\""
        var honoursRanges = true
        var announcesLength = true
    }

    let state = Locked(State())
    let resource: Locked<Resource>

    init(_ resource: Resource) { self.resource = Locked(resource) }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        let connection = SimulatedConnection(request: request.urlRequest, delegate: delegate, network: self)
        state.withLock { $0.connections.append(connection) }
        return connection
    }

    func perform(_ block: @escaping @Sendable () -> Void) {
        state.withLock { $0.blocks.append(block) }
    }

    /// The connections that have begun and not ended.
    var open: [SimulatedConnection] { state.withLock { $0.connections }.filter(\.isOpen) }
    var connectionCount: Int { state.withLock { $0.connections.count } }

    /// Takes one step: runs a waiting block, or otherwise the next event of a connection.
    ///
    /// - Returns: False if no step is possible.
    func step(pick: (Int) -> Int, fails: Bool = false) -> Bool {
        let block = state.withLock { $0.blocks.isEmpty ? nil : $0.blocks.removeFirst() }
        if let block {
            block()
            return true
        }
        let open = self.open
        guard !open.isEmpty else { return false }
        open[pick(open.count)].step(chunk: 1 + pick(64), fails: fails)
        return true
    }
}

final class SimulatedConnection: Connection, @unchecked Sendable {
    // The connection is used only by the test's single thread.
    let originalRequest: URLRequest
    private var delegate: (any ConnectionDelegate)?
    private let network: SimulatedTransport
    private var isStarted = false
    private(set) var isCancelRequested = false
    private var isEnded = false
    private var rest: Data?
    var startCount = 0

    init(request: URLRequest, delegate: any ConnectionDelegate, network: SimulatedTransport) {
        originalRequest = request
        self.delegate = delegate
        self.network = network
    }

    var isOpen: Bool { isStarted && !isEnded }

    func start() {
        isStarted = true
        startCount += 1
    }

    func cancel() { isCancelRequested = true }
    func suspendReceiving() {}
    func resumeReceiving() {}

    /// Performs the next event of this connection.
    func step(chunk: Int, fails: Bool) {
        if isCancelRequested { return end { $0.connectionDidCancel(self) } }
        if fails { return end { $0.connection(self, didFailWith: URLError(.networkConnectionLost)) } }
        guard let rest else { return respond() }
        if rest.isEmpty { return end { $0.connectionDidFinish(self) } }
        let piece = rest.prefix(chunk)
        self.rest = rest.dropFirst(chunk)
        Data(piece).withUnsafeBytes { delegate?.connection(self, didReceive: $0) }
    }

    private func respond() {
        let resource = network.resource.withLock { $0 }
        var headers: [(String, String)] = []
        if let tag = resource.tag { headers.append(("ETag", tag)) }
        var status = 200
        var body = resource.body
        if resource.honoursRanges, let range = originalRequest.value(forHTTPHeaderField: "Range"),
            let offset = Int(range.dropFirst("bytes=".count).dropLast()),
            originalRequest.value(forHTTPHeaderField: "If-Range") == resource.tag
        {
            if offset < body.count {
                status = 206
                headers.append(("Content-Range", "bytes \(offset)-\(body.count - 1)/\(body.count)"))
                body = Data(body.dropFirst(offset))
            } else {
                status = 416
                headers.append(("Content-Range", "bytes */\(body.count)"))
                body = Data()
            }
        }
        if resource.announcesLength { headers.append(("Content-Length", "\(body.count)")) }
        rest = body
        let url = originalRequest.url ?? URL(fileURLWithPath: "/")
        delegate?.connection(self, didReceive: ResponseHead(url: url, statusCode: status, headers: headers), after: nil)
    }

    private func end(_ tell: (any ConnectionDelegate) -> Void) {
        isEnded = true
        let told = delegate
        delegate = nil
        if let told { tell(told) }
    }
}
