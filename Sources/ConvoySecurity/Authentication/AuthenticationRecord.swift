import ConvoySupport
import Foundation
import FoundationNetworking

/// The authentication state of one operation: the challenges of servers and proxies, and its answers. It does no I/O,
/// and can be used on any thread.
package final class AuthenticationRecord: RequestAuthorizer {
    private struct Answer {
        let space: ProtectionSpace
        let credential: URLCredential?
        /// For Digest.
        var nonce: DigestNonce?
        /// For Bearer.
        var token: String?
        /// The first target that it is sent for. The memory notes the answer for this target, not for others of the
        /// server to which redirects lead.
        var home: String?
        /// Whether the challenge was made to an earlier operation.
        var isRemembered = false
    }

    /// An answer that was sent, and its target.
    private struct Sent {
        let answer: Answer
        let uri: String
        /// For Digest: the nonce count and the client's nonce, which the server's proof covers.
        let use: DigestNonce.Use?
    }

    private struct State {
        /// The answer for each server from now on.
        var answers: [AuthenticatingServer: Answer] = [:]
        /// The answers sent with the last request.
        var sent: [AuthenticatingServer: Sent] = [:]
        var refusals = RefusalCounts()
        var rejected: Set<ProtectionSpace> = []
        /// How often in a row a server's nonce was stale.
        var staleInARow: [AuthenticatingServer: Int] = [:]
        /// Credentials of a handler, to store once the server accepts them.
        var toKeep: [AuthenticatingServer: (ProtectionSpace, URLCredential)] = [:]
    }

    private let source: CredentialSource
    private let memory: AuthorizationMemory
    private let state = Locked(State())

    private static let mostStale = 3

    package init(_ source: CredentialSource, memory: AuthorizationMemory = .shared) {
        self.source = source
        self.memory = memory
    }

    // MARK: Sending

    package func authorization(for target: AuthorizationTarget) -> RequestAuthorization? {
        let chosen = state.withLock { state -> Answer? in
            guard var answer = state.answers[target.server] else { return nil }
            answer.home = answer.home ?? target.uri
            state.answers[target.server] = answer
            return answer
        }
        let answer = chosen ?? (target.hasOwn ? nil : remembered(for: target))
        let use = answer?.nonce?.nextUse()
        let authorization = answer.flatMap { Self.authorization($0, target, use) }
        // An answer that cannot be made for this request counts as sent: otherwise the server would ask, and the same
        // answer be chosen, for ever.
        let sent = authorization == nil ? chosen : answer
        state.withLock {
            $0.sent[target.server] = sent.map { Sent(answer: $0, uri: target.uri, use: authorization == nil ? nil : use) }
        }
        return authorization
    }

    /// Whether authorizing the next request to a server may block.
    package func mayBlock(at uri: String, of server: AuthenticatingServer) -> Bool {
        let answered = state.withLock { $0.answers[server] }?.space
        return (answered ?? memory.entry(for: uri, of: server)?.space)?.method == .negotiate
    }

    /// An answer to a challenge that the server made to an earlier operation.
    private func remembered(for target: AuthorizationTarget) -> Answer? {
        guard let entry = memory.entry(for: target.uri, of: target.server),
            state.withLock({ !$0.rejected.contains(entry.space) && $0.refusals.count(in: entry.space) == 0 }),
            let credential = source.credential(for: entry.space, of: target.server),
            Self.isUsable(credential, for: entry.space.method)
        else { return nil }
        return Answer(space: entry.space, credential: credential, nonce: entry.nonce, isRemembered: true)
    }

    private static func authorization(
        _ answer: Answer, _ target: AuthorizationTarget, _ use: DigestNonce.Use?
    ) -> RequestAuthorization? {
        let user = answer.credential?.user ?? ""
        let password = answer.token ?? answer.credential?.password ?? ""
        func field(_ value: String?) -> RequestAuthorization? {
            value.map { .field($0, user: user, password: password) }
        }
        switch answer.space.method {
        case .basic: return field(BasicAuthorization.value(user: user, password: password))
        case .bearer: return field(answer.token.flatMap(BearerAuthorization.value(token:)))
        case .digest:
            guard let nonce = answer.nonce, let use else { return nil }
            return field(
                nonce.challenge.authorization(
                    user: user, password: password, method: target.method, uri: target.uri, body: target.body,
                    count: use.count, cnonce: use.cnonce))
        case .ntlm: return .connection(.ntlm, user: user, password: password)
        case .negotiate: return target.mayBlock ? .connection(.negotiate, user: user, password: password) : nil
        }
    }

    // MARK: Challenges

    /// Evaluates the challenges of a response.
    ///
    /// - Parameters:
    ///   - fields: the values of `WWW-Authenticate`, or of `Proxy-Authenticate`.
    ///   - server: the server or proxy that sent them.
    package func evaluate(_ fields: [String], of server: AuthenticatingServer) -> AuthenticationVerdict {
        let offers = Self.offers(HTTPChallenge.parse(fields))
        let open = state.withLock { state -> [(ProtectionSpace, HTTPChallenge, RefusalCounts)]? in
            let sent = state.sent.removeValue(forKey: server)?.answer
            state.toKeep[server] = nil
            if let sent {
                if isStale(sent, offers, &state, server) { return nil }
                state.answers[server] = nil
                memory.forget(sent.space, of: server)
                // A remembered nonce may have expired; that does not make the credential wrong.
                if !(sent.isRemembered && sent.space.method == .digest) {
                    state.refusals.note(sent.space, offering: offers.map(\.realm))
                }
            }
            return offers.compactMap { offer in
                guard let method = offer.method else { return nil }
                let space = server.space(realm: offer.realm, method: method)
                return state.rejected.contains(space) ? nil : (space, offer, state.refusals)
            }
        }
        guard let open else { return .sendAgain }
        let questions = open.map { space, offer, refusals in
            let credential = source.credential(for: space, of: server)
            return AuthenticationQuestion(
                space: space,
                proposedCredential: credential.flatMap { Self.isUsable($0, for: space.method) ? $0 : nil },
                previousFailureCount: refusals.count(in: space), isRefused: refusals.isRefused(space), server: server,
                challenge: offer)
        }
        return questions.isEmpty ? .none : .ask(questions)
    }

    /// Whether only the nonce was stale (RFC 7616, section 3.3). If so, sets an answer with the new one.
    private func isStale(
        _ sent: Answer, _ offers: [HTTPChallenge], _ state: inout State, _ server: AuthenticatingServer
    ) -> Bool {
        guard sent.space.method == .digest, state.staleInARow[server, default: 0] < Self.mostStale,
            let offer = offers.first(where: { $0.method == .digest && $0.realm == sent.space.realm }),
            let challenge = DigestChallenge(offer), challenge.isStale, challenge.nonce != sent.nonce?.challenge.nonce
        else { return false }
        state.staleInARow[server, default: 0] += 1
        state.answers[server] = Answer(
            space: sent.space, credential: sent.credential, nonce: DigestNonce(challenge))
        return true
    }

    /// The challenges that this library can answer: one for each method and realm, the strongest first.
    private static func offers(_ challenges: [HTTPChallenge]) -> [HTTPChallenge] {
        var best: [HTTPChallenge] = []
        for challenge in challenges {
            guard let method = challenge.method, isSupported(method) else { continue }
            if method == .digest {
                guard let digest = DigestChallenge(challenge) else { continue }
                let same = best.firstIndex { $0.method == .digest && $0.realm == challenge.realm }
                if let same, let other = DigestChallenge(best[same]) {
                    if digest.strength > other.strength { best[same] = challenge }
                    continue
                }
            } else if best.contains(where: { $0.method == method && $0.realm == challenge.realm }) {
                continue
            }
            best.append(challenge)
        }
        // The offset makes the order stable.
        return best.enumerated()
            .sorted { (rank($0.element), $0.offset) < (rank($1.element), $1.offset) }.map(\.element)
    }

    private static func rank(_ challenge: HTTPChallenge) -> Int {
        switch challenge.method {
        case .negotiate: 0
        case .bearer: 1
        case .digest: 2
        case .ntlm: 3
        case .basic, nil: 4
        }
    }

    /// Whether this library or libcurl supports a method.
    private static func isSupported(_ method: AuthenticationMethod) -> Bool {
        switch method {
        case .basic, .bearer, .digest: true
        case .ntlm, .negotiate: ConnectionAuthentication.isSupported(method)
        }
    }

    /// Whether a credential fits a method: Kerberos uses tickets in place of a user and a password, all others need
    /// these.
    private static func isUsable(_ credential: URLCredential, for method: AuthenticationMethod) -> Bool {
        let isEmpty = (credential.user ?? "").isEmpty && (credential.password ?? "").isEmpty
        switch method {
        case .negotiate: return isEmpty
        case .bearer: return false
        case .basic, .digest, .ntlm: return !isEmpty
        }
    }

    // MARK: Answers

    /// Answers with a credential. False for one that cannot be sent, such as a user name with a colon.
    ///
    /// - Parameter keeps: whether to store it once the server has accepted it.
    package func answer(_ question: AuthenticationQuestion, with credential: URLCredential, keeps: Bool) -> Bool {
        var answer = Answer(space: question.space, credential: credential)
        if question.space.method == .digest {
            guard let challenge = DigestChallenge(question.challenge) else { return false }
            answer.nonce = DigestNonce(challenge)
        }
        guard Self.canSend(answer) else { return false }
        let isKept = keeps && credential.persistence != .none
        state.withLock { state in
            state.answers[question.server] = answer
            state.staleInARow[question.server] = nil
            state.toKeep[question.server] = isKept ? (question.space, credential) : nil
        }
        return true
    }

    private static func canSend(_ answer: Answer) -> Bool {
        let (user, password) = (answer.credential?.user ?? "", answer.credential?.password ?? "")
        switch answer.space.method {
        case .basic: return BasicAuthorization.value(user: user, password: password) != nil
        case .digest:
            return answer.nonce?.challenge.authorization(
                user: user, password: password, method: "GET", uri: "/", body: Data(), count: 1, cnonce: "0") != nil
        case .bearer: return false
        // libcurl takes C strings.
        case .ntlm, .negotiate: return !(user + password).utf8.contains(0)
        }
    }

    /// Answers with a token (RFC 6750). False for one that cannot be sent.
    package func answer(_ question: AuthenticationQuestion, withToken token: String) -> Bool {
        guard question.space.method == .bearer, BearerAuthorization.value(token: token) != nil else { return false }
        state.withLock {
            $0.answers[question.server] = Answer(space: question.space, credential: nil, token: token)
        }
        return true
    }

    /// Ignores the challenges of the space from now on.
    package func reject(_ question: AuthenticationQuestion) {
        state.withLock { _ = $0.rejected.insert(question.space) }
    }

    // MARK: Success

    /// Checks a server's proof that it knows the password (`rspauth`, RFC 7616, section 3.5). Nil if the proof is
    /// right, missing (it is optional), or covers a body, which was not kept.
    ///
    /// - Parameters:
    ///   - server: the server that answered the last request.
    ///   - info: the values of its `Authentication-Info`.
    package func proofFailure(at server: AuthenticatingServer, info: [String]) -> ResponseAuthenticationFailure? {
        guard !info.isEmpty, let sent = state.withLock({ $0.sent[server] }), let use = sent.use,
            let challenge = sent.answer.nonce?.challenge, challenge.protections.contains(.auth)
        else { return nil }
        let isWrong = info.contains { value in
            guard let info = DigestAuthenticationInfo(value) else { return false }
            return challenge.verifies(
                info, user: sent.answer.credential?.user ?? "", password: sent.answer.credential?.password ?? "",
                uri: sent.uri, body: nil, count: use.count, cnonce: use.cnonce) == false
        }
        guard isWrong else { return nil }
        // The answer is not sent again unless the server asks.
        memory.forget(sent.answer.space, of: server)
        state.withLock { state in
            state.sent[server] = nil
            state.answers[server] = nil
            state.toKeep[server] = nil
        }
        return ResponseAuthenticationFailure(host: sent.answer.space.host, realm: challenge.realm)
    }

    /// Remembers the challenges of all servers and proxies that have accepted the last request.
    ///
    /// - Parameters:
    ///   - server: the one that has not accepted it.
    ///   - last: the server that answered.
    ///   - info: the values of its `Authentication-Info`.
    package func noteSuccess(except server: AuthenticatingServer?, at last: AuthenticatingServer?, info: [String]) {
        let (passed, kept) = state.withLock { state in
            let passed = state.sent.filter { $0.key != server }
            let kept = state.toKeep.filter { passed[$0.key] != nil }
            for key in passed.keys {
                state.sent[key] = nil
                state.toKeep[key] = nil
                state.staleInARow[key] = nil
            }
            return (passed, kept)
        }
        for (space, credential) in kept.values { source.store?.set(credential, for: space) }
        for (server, sent) in passed where sent.answer.token == nil {
            let answer = sent.answer
            let next = server == last ? info.lazy.compactMap { DigestAuthenticationInfo($0)?.nextNonce }.first : nil
            let nonce = next.flatMap { answer.nonce?.following($0) } ?? answer.nonce
            memory.note(answer.space, nonce: nonce, at: answer.home ?? sent.uri, of: server)
        }
    }
}

extension DigestNonce {
    /// The nonce count and the client's nonce of one request.
    fileprivate struct Use {
        let count: UInt32
        let cnonce: String
    }

    /// The numbers of the next request.
    fileprivate func nextUse() -> Use { Use(count: nextCount(), cnonce: makeCnonce()) }

    /// A nonce that replaces this one (`nextnonce`).
    fileprivate func following(_ nonce: String) -> DigestNonce { DigestNonce(challenge.replacingNonce(with: nonce)) }
}

/// A challenge of a server or a proxy that must be decided: with a credential, a token, or a refusal.
package struct AuthenticationQuestion: Sendable {
    package let space: ProtectionSpace
    /// The credential that is known for the space.
    package let proposedCredential: URLCredential?
    /// How often the server has refused credentials for the space, within one operation.
    package let previousFailureCount: Int
    /// Whether the proposed credential must not be sent, as the server has refused one in this realm, by this method or
    /// another.
    package let isRefused: Bool
    let server: AuthenticatingServer
    let challenge: HTTPChallenge
}

/// What to do about a response with 401 or 407.
package enum AuthenticationVerdict: Sendable {
    /// Nothing: there is no challenge that could be answered.
    case none
    /// Send the same credential again with the new nonce, as the old one was stale.
    case sendAgain
    /// Ask about these challenges, the strongest method first; not empty.
    case ask([AuthenticationQuestion])
}

/// Counts how often servers have refused the credentials of one operation.
struct RefusalCounts: Sendable {
    private struct Realm: Hashable {
        let server: AuthenticatingServer
        let name: String?

        init(_ space: ProtectionSpace) { (server, name) = (space.server, space.realm) }
    }

    private var spaces: [ProtectionSpace: Int] = [:]
    private var realms: Set<Realm> = []
    /// How often a server has answered a credential with a challenge of another realm.
    private var evasions: [AuthenticatingServer: Int] = [:]

    /// The maximum number of realms on the way of one request. A server with more makes them up.
    private static let mostEvasions = 2

    /// Notes that a server has refused what was sent for a space.
    ///
    /// - Parameter offered: the realms of its new challenges. If that of the space is not among them, the credential
    ///   may still be right for it.
    mutating func note(_ space: ProtectionSpace, offering offered: [String?]) {
        if offered.contains(space.realm) {
            spaces[space, default: 0] += 1
            realms.insert(Realm(space))
        } else {
            evasions[space.server, default: 0] += 1
        }
    }

    /// How often credentials of a space were refused. If a server keeps changing its realm, all refusals count.
    func count(in space: ProtectionSpace) -> Int {
        let evaded = evasions[space.server] ?? 0
        return (spaces[space] ?? 0) + (evaded > Self.mostEvasions ? evaded : 0)
    }

    /// Whether the server refused a credential for the space by any method. A weaker method is then not tried by
    /// itself.
    func isRefused(_ space: ProtectionSpace) -> Bool { realms.contains(Realm(space)) || count(in: space) > 0 }
}
