import ConvoySecurity
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// A transport whose connections end in turn as specified by a script.
final class ScriptedTransport: Transport {
    enum End {
        case unsent, lost, refused, unproven, answer
        case failure(URLError.Code)
        case status(Int, [(String, String)])
    }

    private struct State {
        var script: [End]
        var beforeTheEnd: (@Sendable () -> Void)?
        var paths: [String] = []
        var mayUseHTTP2: [Bool] = []
        var bodies: [Data] = []
    }

    private let state: Locked<State>
    private let network = DispatchQueue(label: "scripted network")

    init(_ script: [End]) { state = Locked(State(script: script)) }

    /// Sets a block that runs once, just before the next connection ends.
    func beforeTheEnd(_ block: @escaping @Sendable () -> Void) { state.withLock { $0.beforeTheEnd = block } }

    /// The requests, in order.
    var paths: [String] { state.withLock { $0.paths } }
    var bodies: [Data] { state.withLock { $0.bodies } }
    var mayUseHTTP2: [Bool] { state.withLock { $0.mayUseHTTP2 } }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        state.withLock { $0.mayUseHTTP2.append(configuration.usesHTTP2) }
        return ScriptedConnection(request.urlRequest, configuration, delegate, self)
    }

    func perform(_ block: @escaping @Sendable () -> Void) { network.async(execute: block) }

    func end(of request: URLRequest) -> End {
        state.withLock { $0.beforeTheEnd.take() }?()
        let body = request.httpBodyStream.map(Self.contents)
        return state.withLock { state in
            state.paths.append(request.url?.path ?? "")
            if let body { state.bodies.append(body) }
            return state.script.isEmpty ? .answer : state.script.removeFirst()
        }
    }

    private static func contents(of stream: InputStream) -> Data {
        stream.open()
        defer { stream.close() }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = stream.read(&buffer, maxLength: buffer.count)
        return Data(buffer.prefix(max(0, count)))
    }
}

final class ScriptedConnection: Connection, @unchecked Sendable {
    let originalRequest: URLRequest
    private let configuration: ConnectionConfiguration
    private let delegate: any ConnectionDelegate
    private let network: ScriptedTransport
    /// Whether the connection has ended. Used on the network's queue only.
    private var isOver = false

    init(
        _ request: URLRequest, _ configuration: ConnectionConfiguration, _ delegate: any ConnectionDelegate,
        _ network: ScriptedTransport
    ) {
        originalRequest = request
        self.configuration = configuration
        self.delegate = delegate
        self.network = network
    }

    func start() { network.perform { self.run() } }
    func cancel() {
        network.perform {
            guard !self.isOver else { return }
            self.isOver = true
            self.delegate.connectionDidCancel(self)
        }
    }
    func suspendReceiving() {}
    func resumeReceiving() {}

    private func run() {
        guard !isOver, let url = originalRequest.url else { return }
        var userInfo: [String: Any] = [NSURLErrorFailingURLErrorKey: url]
        authorize(url)
        let end = network.end(of: originalRequest)
        isOver = true
        switch end {
        case .answer:
            delegate.connection(self, didReceive: ResponseHead(url: url, statusCode: 200, headers: []), after: nil)
            delegate.connectionDidFinish(self)
        case .status(let status, let headers):
            delegate.connection(self, didReceive: ResponseHead(url: url, statusCode: status, headers: headers), after: nil)
            delegate.connectionDidFinish(self)
        case .failure(let code):
            delegate.connection(self, didFailWith: URLError(code, userInfo: userInfo))
        case .unsent:
            userInfo[URLError.nothingWasSentKey] = true
            fallthrough
        case .lost:
            delegate.connection(self, didFailWith: URLError(.networkConnectionLost, userInfo: userInfo))
        case .unproven:
            userInfo[URLError.isUnprovenKey] = true
            delegate.connection(self, didReceive: ResponseHead(url: url, statusCode: 200, headers: []), after: nil)
            Data("cut".utf8).withUnsafeBytes { delegate.connection(self, didReceive: $0) }
            delegate.connection(self, didFailWith: URLError(.networkConnectionLost, userInfo: userInfo))
        case .refused:
            delegate.connection(self, didFailWith: URLError(.cannotConnectToHost, userInfo: userInfo))
        }
    }

    /// Requests the answer to an earlier challenge, as a transfer does before it sends its request.
    private func authorize(_ url: URL) {
        guard let authorizer = configuration.authorizer?.authorizer, let server = AuthenticatingServer(url) else { return }
        let target = AuthorizationTarget(
            server: server, method: originalRequest.httpMethod ?? "GET", uri: url.path, body: Data(), mayBlock: false,
            hasOwn: originalRequest.value(forHTTPHeaderField: "Authorization") != nil)
        _ = authorizer.authorization(for: target)
    }
}
