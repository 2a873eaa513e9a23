import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTransport

/// Tests that no secret reaches a target outside its scope, and that every target inside receives it, with chains of
/// redirects, challenges, refreshes and retries, under managers with and without a base URL.
@Suite struct SecretScopePropertyTests {
    private static let identity = ClientIdentity(certificatePEM: Data("certificate".utf8))
    private static let credential = URLCredential(user: "ada", password: "pw", persistence: .none)
    private static let basic = BasicAuthorization.value(user: "ada", password: "pw") ?? ""

    @Test func `a secret reaches exactly the targets of its scope`() async throws {
        var random = SplitMix64.printingSeed()
        let count = PropertyBudget.rounds(2_000)
        var seen = Seen()
        let workers = (0..<2).map { _ in random.fork() }
        try await withThrowingTaskGroup(of: Seen.self) { group in
            for worker in workers {
                group.addTask {
                    var (random, seen) = (worker, Seen())
                    let queue = DispatchQueue(label: "secret network")
                    for _ in 0..<count / 2 {
                        let chain = SecretChain.random(&random)
                        try await Self.run(chain, on: queue, &seen)
                    }
                    return seen
                }
            }
            for try await part in group { seen.add(part) }
        }
        print("chains: \(count), requests: \(seen.requests), inside: \(seen.inside), outside: \(seen.outside)")
        // The checks are meaningful only if each case occurs often.
        #expect(seen.requests > count * 2 && seen.inside.allSatisfy { $0.value > count / 50 })
        #expect(seen.outside.allSatisfy { $0.value > count / 50 } && seen.inside.count == 6 && seen.outside.count == 6)
        #expect(seen.refreshes > count / 100)
    }

    /// The number of checks in which each secret was inside and outside its scope.
    private struct Seen: Sendable {
        var requests = 0, refreshes = 0
        var inside: [String: Int] = [:], outside: [String: Int] = [:]

        mutating func add(_ other: Seen) {
            requests += other.requests
            refreshes += other.refreshes
            inside.merge(other.inside, uniquingKeysWith: +)
            outside.merge(other.outside, uniquingKeysWith: +)
        }
    }

    // MARK: Running a chain

    private static func run(_ chain: SecretChain, on queue: DispatchQueue, _ seen: inout Seen) async throws {
        let network = SecretNetwork(chain, on: queue)
        let operation = try operation(of: chain, over: network)
        operation.start()
        try? await operation.finished()
        let sent = network.sent
        #expect(!sent.isEmpty, "\(chain)")
        check(sent, of: chain, &seen)
    }

    private static func operation(of chain: SecretChain, over network: SecretNetwork) throws -> HTTPRequestOperation {
        let manager = HTTPRequestOperationManager(baseURL: try chain.base.map { try SecretChain.url(of: $0) })
        manager.setTransport(network)
        manager.completionQueue = queue
        manager.authorizationOrigins = Set(try chain.origins.map { try SecretChain.url(of: $0, "/any") })
        manager.requestSerializer.setValue("key", forHTTPHeaderField: SecretChain.ofSerializer)
        manager.responseSerializer = HTTPResponseSerializer()
        var policy = RetryPolicy(maximumRetryCount: 2)
        policy.initialDelay = 0
        manager.retryPolicy = policy
        manager.coalescesIdenticalRequests = chain.isShared
        manager.connectionConfiguration.clientIdentity = identity
        manager.connectionConfiguration.keepsHeadersAcrossOrigins = chain.kept
        manager.connectionConfiguration.allowsRedirectToPlainText = true
        switch chain.kind {
        case .plain: break
        case .credential: manager.credential = credential
        case .token, .answered:
            let number = Locked(0)
            manager.authenticator = Authenticator(token: AccessToken("token0"), limit: 50) { _ in
                number.withLock { $0 += 1 }
                return AccessToken("token\(number.withLock { $0 })")
            }
            guard chain.kind == .answered else { break }
            manager.connectionConfiguration.proxy = .proxy(
                try Proxy(.http, host: "proxy.test", credential: ProxyCredential(user: "proxy", password: "pw")))
            manager.authenticationChallengeHandler = { _, challenge, answer in
                answer(challenge.previousFailureCount == 0 ? .useCredential(credential) : .performDefaultHandling)
            }
        }
        let operation = try manager.makeOperation(
            chain.method, chain.url, headers: [SecretChain.ofCall: "own"])
        var sent = operation
        if let prepared = chain.prepared {
            let url = try SecretChain.url(of: prepared, "/d/prepared")
            operation.prepare = { $0.url = url }
        }
        if let part = chain.part {
            var request = operation.request
            request.url = try SecretChain.url(of: part, "/d/part")
            sent = HTTPRequestOperation(request: request)
            sent.adoptSettings(of: operation, decoding: false)
            sent.responseSerializer = HTTPResponseSerializer()
        }
        if chain.hasHandler {
            let redirects = Locked(0)
            sent.redirectHandler = { _, request, _ in
                let number = redirects.withLock { count in
                    count += 1
                    return count
                }
                guard number == chain.handlerAdds else { return request }
                var request = request
                request.setValue("handler", forHTTPHeaderField: SecretChain.ofHandler)
                return request
            }
        }
        return sent
    }

    private static let queue = DispatchQueue(label: "secret handlers")

    // MARK: Checking a chain

    private static func check(_ sent: [SecretNetwork.Sent], of chain: SecretChain, _ seen: inout Seen) {
        let start = chain.start
        var refusedToken: String?
        /// The server whose challenge the credential must answer.
        var challenger: Int?
        for (number, request) in sent.enumerated() {
            func note(_ secret: String, _ isInside: Bool, _ isSent: Bool) {
                #expect(isSent == isInside, "\(secret) in request \(number) of \(sent.map(\.path)) of \(chain)")
                if isInside { seen.inside[secret, default: 0] += 1 } else { seen.outside[secret, default: 0] += 1 }
            }
            seen.requests += 1
            #expect(request.url.flatMap { Target($0) } == (try? Target(SecretChain.url(of: request.path.last ?? -1))))
            let last = request.path.last ?? start
            let stayed = request.path.allSatisfy { $0 == start }
            func survives(_ name: String) -> Bool { stayed || chain.kept.contains(name) }

            for (secret, name) in [("serializer", SecretChain.ofSerializer), ("call", SecretChain.ofCall)] {
                note(secret, chain.startsWith(name) && survives(name), request.fields[name] != nil)
            }
            let stayedSinceHandler = request.handlerAdded.map { added in request.path[added...].allSatisfy { $0 == last } }
            note(
                "handler", stayedSinceHandler.map { $0 || chain.kept.contains(SecretChain.ofHandler) } ?? false,
                request.fields[SecretChain.ofHandler] != nil)
            note("certificate", !chain.isPartElsewhere && last == start, request.hasCertificate)

            let authorization = request.fields[SecretChain.authorization]
            switch chain.kind {
            case .plain: #expect(authorization == nil, "\(chain)")
            case .answered where authorization == basic: break
            case .token, .answered:
                note(
                    "token", chain.hasCredentials && survives(SecretChain.authorization),
                    authorization?.hasPrefix("Bearer token") == true)
                if let refusedToken {
                    #expect(authorization != refusedToken, "\(chain)")
                    seen.refreshes += 1
                }
            case .credential:
                let mayHave = chain.hasCredentials && isSameRecipient(last, as: start)
                #expect(authorization == nil || authorization == basic && mayHave, "\(authorization ?? "") \(chain)")
                if challenger == last { note("credential", true, authorization == basic) }
                if !mayHave { note("credential", false, authorization != nil) }
            }
            refusedToken = nil
            challenger = nil
            if case .challenge = request.answer {
                refusedToken = chain.kind == .token ? authorization : nil
                // A token that was not sent is not refreshed.
                if chain.kind == .token, authorization == nil { #expect(number + 1 == sent.count, "\(chain)") }
                let isAnswered = chain.kind == .credential && chain.hasCredentials && isSameRecipient(last, as: start)
                // A refused credential is not sent again.
                if isAnswered, authorization == nil {
                    challenger = last
                    #expect(number + 1 < sent.count, "\(chain)")
                }
            }
        }
    }

    /// Whether a credential for one server is also for another: its name with a dot, or its counterpart over TLS.
    private static func isSameRecipient(_ server: Int, as own: Int) -> Bool {
        server == own || [[1, 3], [3, 1], [0, 1], [0, 3]].contains([own, server])
    }
}
