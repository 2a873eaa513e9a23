import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking

@testable import ConvoyOperations
@testable import ConvoyTransport

/// A generated operation, and the responses of the servers that it is sent to.
struct SecretChain: Sendable {
    /// The kind of authentication. `answered` has a token, a handler that answers challenges with a credential, and a
    /// proxy.
    enum Kind: CaseIterable { case plain, token, credential, answered }

    enum Answer: Sendable {
        case redirect(status: Int, location: String, server: Int)
        /// A challenge by the server or, if there is one, by the proxy.
        case challenge(ofProxy: Bool)
        case unavailable
        case lost
        case success
    }

    /// Different targets, each in several spellings.
    static let servers = [
        ["http://a.test", "HTTP://A.test:80", "http://%61.test"],
        // The same host over TLS, on another port, and with a trailing dot.
        ["https://a.test", "https://a.TEST:443"],
        ["http://a.test:8080", "http://a.test:08080"],
        ["https://a.test.", "https://a.test.:443"],
        ["http://b.test", "http://b.test:"],
        ["https://xn--bcher-kva.test", "https://b\u{FC}cher.test"],
        ["http://[::1]", "http://[0:0::1]:80"],
    ]

    let kind: Kind
    /// The server of the base URL, and those of `authorizationOrigins`.
    let base: Int?
    let origins: Set<Int>
    let method: HTTPMethod
    let first: Int
    let url: String
    /// The server of the part that is sent instead of the operation itself.
    let part: Int?
    /// The server that `prepare` chooses instead.
    let prepared: Int?
    /// The fields of `keepsHeadersAcrossOrigins`.
    let kept: Set<String>
    /// Whether a handler decides about redirects, and the redirect to whose target it sends its own secret.
    let hasHandler: Bool
    let handlerAdds: Int?
    let isShared: Bool
    let answers: [Answer]

    /// The fields that contain the secrets of the serializer, of the call, and of the redirect handler.
    static let ofSerializer = "X-Api-Key", ofCall = "X-Call-Token", ofHandler = "X-Handler-Token"
    static let authorization = "Authorization"

    static func random(_ random: inout SplitMix64) -> SecretChain {
        // Most chains stay within few servers, so that they return to them.
        let all = Array(servers.indices)
        let near = (0..<3).map { _ in all.randomElement(using: &random) ?? 0 }
        func server(_ random: inout SplitMix64) -> Int { near.randomElement(using: &random) ?? 0 }
        func chance(_ count: Int, _ random: inout SplitMix64) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }
        let base = chance(3, &random) ? nil : server(&random)
        let isRelative = base != nil && chance(2, &random)
        let first = isRelative ? base ?? 0 : server(&random)
        let path = "d/\(Int.random(in: 0..<9, using: &random))"
        let names = [ofSerializer, ofCall, ofHandler, authorization]
        let hasHandler = chance(3, &random)
        var current = first
        let part = chance(5, &random) ? server(&random) : nil
        let answers = (0..<Int.random(in: 1...8, using: &random)).map { number -> Answer in
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1: return .challenge(ofProxy: chance(2, &random))
            case 2: return chance(2, &random) ? .unavailable : .lost
            case 3, 4:
                let status = [301, 302, 303, 307, 308].randomElement(using: &random) ?? 302
                let reference = ["/d/s\(number)", "s\(number)", "?s\(number)"].randomElement(using: &random) ?? ""
                return .redirect(status: status, location: reference, server: -1)
            default:
                let status = [301, 302, 303, 307, 308].randomElement(using: &random) ?? 302
                if !chance(3, &random) { current = server(&random) }
                return .redirect(
                    status: status, location: "\(spelling(of: current, &random))/d/r\(number)", server: current)
            }
        }
        return SecretChain(
            kind: Kind.allCases.randomElement(using: &random) ?? .plain, base: base,
            origins: chance(2, &random) ? [] : [server(&random), server(&random)],
            method: chance(4, &random) ? .post : .get, first: first,
            url: isRelative ? path : "\(spelling(of: first, &random))/\(path)",
            part: part, prepared: part == nil && chance(5, &random) ? server(&random) : nil,
            kept: chance(6, &random) ? Set(names.filter { _ in chance(2, &random) }) : [],
            hasHandler: hasHandler, handlerAdds: hasHandler ? Int.random(in: 1..<5, using: &random) : nil,
            isShared: chance(4, &random), answers: answers)
    }

    /// The server of the first request that is sent.
    var start: Int { part ?? prepared ?? first }

    /// Whether a server is in the scope of the manager, by an independent definition: two servers are equal only if
    /// their numbers are.
    private func isOfManager(_ server: Int) -> Bool { base == nil || base == server || origins.contains(server) }

    /// Whether the operation is a part of an operation for a different server.
    var isPartElsewhere: Bool { part != nil && part != first }

    /// Whether the operation may use the token or credential of the manager.
    var hasCredentials: Bool { !isPartElsewhere && isOfManager(start) }

    /// Whether the first request has a field of the serializer or of the call.
    func startsWith(_ name: String) -> Bool {
        if isPartElsewhere, !kept.contains(name) { return false }
        if isOfManager(first) { return prepared.map(isOfManager) ?? true }
        return name == Self.ofCall
    }

    static func spelling(of server: Int, _ random: inout SplitMix64) -> String {
        servers[server].randomElement(using: &random) ?? servers[server][0]
    }

    static func url(of server: Int, _ path: String = "/") throws -> URL {
        guard let url = URL(string: servers[server][0] + path) else { throw URLError(.badURL) }
        return url
    }
}

/// A network whose servers send the answers of a chain. The decisions about each request are those of the library: the
/// redirect rules, the authorizer and the choice of the certificate of a `RequestChain` that is never started.
final class SecretNetwork: Transport {
    /// A request as a server receives it.
    struct Sent: Sendable {
        /// The servers since the operation's own request, including this one.
        let path: [Int]
        /// The position in `path` at which the redirect handler has added its secret.
        let handlerAdded: Int?
        let url: URL?
        let fields: [String: String]
        let hasCertificate: Bool
        /// The number of requests of the connection before this one.
        let hop: Int
        var answer = SecretChain.Answer.success
    }

    /// The position of a request in a chain.
    struct Position: Sendable {
        var path: [Int]
        var handlerAdded: Int?
    }

    private struct State {
        var answers: [SecretChain.Answer]
        var sent: [Sent] = []
        /// The position at the last challenge, from which the operation may continue.
        var challenged: Position
    }

    private let state: Locked<State>
    private let first: Position
    private let queue: DispatchQueue

    init(_ chain: SecretChain, on queue: DispatchQueue) {
        first = Position(path: [chain.start])
        state = Locked(State(answers: chain.answers, challenged: first))
        self.queue = queue
    }

    var sent: [Sent] { state.withLock { $0.sent } }

    func connection(
        for request: TransferRequest, configuration: ConnectionConfiguration, delegate: any ConnectionDelegate
    ) -> any Connection {
        let position = configuration.continuation == nil ? first : state.withLock { $0.challenged }
        return SecretConnection(request.urlRequest, configuration, delegate, self, position)
    }

    func perform(_ block: @escaping @Sendable () -> Void) { queue.async(execute: block) }

    /// Records a request and returns its answer.
    func answer(_ sent: Sent) -> SecretChain.Answer {
        state.withLock { state in
            let answer = state.answers.isEmpty ? SecretChain.Answer.success : state.answers.removeFirst()
            if case .challenge = answer {
                state.challenged = Position(path: sent.path, handlerAdded: sent.handlerAdded)
            }
            var sent = sent
            sent.answer = answer
            state.sent.append(sent)
            return answer
        }
    }
}

final class SecretConnection: Connection, @unchecked Sendable {
    let originalRequest: URLRequest
    private let delegate: any ConnectionDelegate
    private let network: SecretNetwork
    // The following properties are used on the network's queue.
    private let rules: RequestChain
    private var position: SecretNetwork.Position
    private var hops = 0
    private var isOver = false

    init(
        _ request: URLRequest, _ configuration: ConnectionConfiguration, _ delegate: any ConnectionDelegate,
        _ network: SecretNetwork, _ position: SecretNetwork.Position
    ) {
        (originalRequest, self.delegate, self.network, self.position) = (request, delegate, network, position)
        rules = RequestChain(request: request, configuration: configuration, delegate: delegate)
    }

    var redirected: (request: URLRequest, followed: Int)? { rules.redirected }

    func start() { network.perform { self.send() } }
    func cancel() { network.perform { self.end { $0.connectionDidCancel(self) } } }
    func suspendReceiving() {}
    func resumeReceiving() {}

    private func end(_ report: (any ConnectionDelegate) -> Void) {
        guard !isOver else { return }
        isOver = true
        rules.delegate = nil
        report(delegate)
    }

    /// The request as `RequestChain` would send it.
    private func sentRequest() -> SecretNetwork.Sent? {
        let request = rules.step.request
        guard let address = HTTPAddress(request.url?.absoluteString ?? "") else { return nil }
        var fields = request.urlRequest.allHTTPHeaderFields ?? [:]
        if let field = rules.authorize(request, address, over: nil).field {
            for name in fields.keys where HTTPSyntax.isSameField(name, SecretChain.authorization) { fields[name] = nil }
            fields[SecretChain.authorization] = field
        }
        let own = rules.configuration.tls.context
        let context = rules.followedRedirects == 0 ? own : rules.tlsContext(for: address.target)
        return SecretNetwork.Sent(
            path: position.path, handlerAdded: position.handlerAdded, url: request.url, fields: fields,
            hasCertificate: rules.configuration.clientIdentity != nil && context === own, hop: hops)
    }

    private func send() {
        guard !isOver else { return }
        guard let sent = sentRequest(), let url = sent.url else {
            return end { $0.connection(self, didFailWith: URLError(.badURL)) }
        }
        switch network.answer(sent) {
        case .success: receive(ResponseHead(url: url, statusCode: 200, headers: []))
        case .unavailable: receive(ResponseHead(url: url, statusCode: 503, headers: []))
        case .lost: end { $0.connection(self, didFailWith: URLError(.networkConnectionLost)) }
        case .challenge(ofProxy: true)
        where Target(url).flatMap(rules.configuration.proxyServer) != nil && url.scheme == "http":
            receive(ResponseHead(url: url, statusCode: 407, headers: [("Proxy-Authenticate", "Basic realm=\"p\"")]))
        case .challenge:
            let methods = ["Basic realm=\"r\"", "Bearer realm=\"r\""]
            receive(ResponseHead(url: url, statusCode: 401, headers: methods.map { ("WWW-Authenticate", $0) }))
        case .redirect(let status, let location, let server):
            redirect(ResponseHead(url: url, statusCode: status, headers: [("Location", location)]), to: server)
        }
    }

    private func receive(_ head: ResponseHead) {
        delegate.connection(self, didReceive: head, after: nil)
        end { $0.connectionDidFinish(self) }
    }

    private func redirect(_ head: ResponseHead, to server: Int) {
        do throws(URLError) {
            guard let redirect = try rules.redirect(of: head) else { return receive(head) }
            delegate.connection(self, willFollow: redirect) { answer in
                self.network.perform { self.follow(answer, redirect, to: server) }
            }
        } catch {
            end { $0.connection(self, didFailWith: error) }
        }
    }

    private func follow(_ answer: URLRequest?, _ redirect: Redirect, to server: Int) {
        guard !isOver else { return }
        delegate.connection(self, didHandle: redirect.event(sending: answer))
        guard let answer else { return receive(redirect.response) }
        guard !redirect.withholdsBody(of: answer) else {
            return end { $0.connection(self, didFailWith: URLError(.badServerResponse)) }
        }
        rules.replaceStep(with: ChainStep(TransferRequest(answer)))
        rules.followedRedirects += 1
        position.path.append(server < 0 ? position.path.last ?? 0 : server)
        let added = answer.value(forHTTPHeaderField: SecretChain.ofHandler)
        if added != nil, redirect.request.value(forHTTPHeaderField: SecretChain.ofHandler) == nil {
            position.handlerAdded = position.path.count - 1
        }
        hops += 1
        send()
    }
}
