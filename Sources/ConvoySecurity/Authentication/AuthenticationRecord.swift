import ConvoySupport
import Foundation
import FoundationNetworking

/// The authentication state of an operation: the challenges of servers and proxies, and the answers to them. It
/// performs no I/O and can be used on any thread.
package final class AuthenticationRecord: RequestAuthorizer {
    private struct Answer {
        let space: ProtectionSpace
        let credential: URLCredential?
        /// The server's nonce that the answer uses; Digest only.
        var nonce: DigestNonce?
        /// The token, for Bearer.
        var token: String?
        /// The first target that the answer is sent for. The answer is remembered for this target, but not for other
        /// targets on the same server that are reached through redirects.
        var home: String?
        /// Whether the challenge was sent to an earlier operation.
        var isRemembered = false
    }

    /// An answer that was sent, and its target.
    private struct Sent {
        let answer: Answer
        let uri: String
        /// The nonce count and the client nonce for Digest, which the server's proof covers.
        let use: DigestNonce.Use?
    }

    private struct State {
        /// The answer to use for each server from now on.
        var answers: [AuthenticatingServer: Answer] = [:]
        /// The answers that were sent with the last request.
        var sent: [AuthenticatingServer: Sent] = [:]
        var refusals = RefusalCounts()
        var rejected: Set<ProtectionSpace> = []
        /// The number of consecutive responses in which a server reported a stale nonce.
        var staleInARow: [AuthenticatingServer: Int] = [:]
        /// Credentials supplied by a handler, to be stored after the server accepts them.
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
        // An answer that cannot be created for this request counts as sent. Otherwise the server would send the same
        // challenge, and the same answer would be chosen, in an endless loop.
        let sent = authorization == nil ? chosen : answer
        state.withLock {
            $0.sent[target.server] = sent.map { Sent(answer: $0, uri: target.uri, use: authorization == nil ? nil : use) }
        }
        return authorization
    }

    /// Returns whether authorizing the next request to a server may block.
    package func mayBlock(at uri: String, of server: AuthenticatingServer) -> Bool {
        let answered = state.withLock { $0.answers[server] }?.space
        return (answered ?? memory.entry(for: uri, of: server)?.space)?.method == .negotiate
    }

    /// Returns an answer to a challenge that the server sent to an earlier operation.
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
    ///   - fields: The values of `WWW-Authenticate` or `Proxy-Authenticate`.
    ///   - server: The server or proxy that sent the challenges.
    package func evaluate(_ fields: [String], of server: AuthenticatingServer) -> AuthenticationVerdict {
        let offers = Self.offers(HTTPChallenge.parse(fields))
        let open = state.withLock { state -> [(ProtectionSpace, HTTPChallenge, RefusalCounts)]? in
            let sent = state.sent.removeValue(forKey: server)?.answer
            state.toKeep[server] = nil
            if let sent {
                if isStale(sent, offers, &state, server) { return nil }
                state.answers[server] = nil
                memory.forget(sent.space, of: server)
                // A remembered nonce may have expired, which does not mean that the credential is wrong.
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

    /// Returns whether only the nonce was stale (RFC 7616, section 3.3). If so, sets an answer with the new nonce.
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

    /// Returns the challenges that can be answered: one for each method and realm, starting with the strongest.
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
        // Comparing offsets makes the sort stable.
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

    /// Returns whether this library or libcurl supports a method.
    private static func isSupported(_ method: AuthenticationMethod) -> Bool {
        switch method {
        case .basic, .bearer, .digest: true
        case .ntlm, .negotiate: ConnectionAuthentication.isSupported(method)
        }
    }

    /// Returns whether a credential is suitable for a method. Kerberos uses tickets instead of a user name and
    /// password; all other methods require them.
    private static func isUsable(_ credential: URLCredential, for method: AuthenticationMethod) -> Bool {
        let isEmpty = (credential.user ?? "").isEmpty && (credential.password ?? "").isEmpty
        switch method {
        case .negotiate: return isEmpty
        case .bearer: return false
        case .basic, .digest, .ntlm: return !isEmpty
        }
    }

    // MARK: Answers

    /// Answers the challenge with a credential. Returns false if the credential cannot be sent, for example because the
    /// user name contains a colon.
    ///
    /// - Parameter keeps: Whether to store the credential after the server accepts it.
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
        // libcurl uses C strings, which cannot contain zero bytes.
        case .ntlm, .negotiate: return !(user + password).utf8.contains(0)
        }
    }

    /// Answers the challenge with a token (RFC 6750). Returns false if the token cannot be sent.
    package func answer(_ question: AuthenticationQuestion, withToken token: String) -> Bool {
        guard question.space.method == .bearer, BearerAuthorization.value(token: token) != nil else { return false }
        state.withLock {
            $0.answers[question.server] = Answer(space: question.space, credential: nil, token: token)
        }
        return true
    }

    /// Ignores all further challenges for the protection space.
    package func reject(_ question: AuthenticationQuestion) {
        state.withLock { _ = $0.rejected.insert(question.space) }
    }

    // MARK: Success

    /// Checks the server's proof that it knows the password (`rspauth`, RFC 7616, section 3.5). Returns nil if the
    /// proof is valid, is missing (it is optional), or covers a body that was not kept.
    ///
    /// - Parameters:
    ///   - server: The server that answered the last request.
    ///   - info: The values of the server's `Authentication-Info` fields.
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
        // Do not send the answer again unless the server sends a challenge.
        memory.forget(sent.answer.space, of: server)
        state.withLock { state in
            state.sent[server] = nil
            state.answers[server] = nil
            state.toKeep[server] = nil
        }
        return ResponseAuthenticationFailure(host: sent.answer.space.host, realm: challenge.realm)
    }

    /// Remembers the challenges of all servers and proxies that accepted the last request.
    ///
    /// - Parameters:
    ///   - server: The server or proxy that did not accept the request.
    ///   - last: The server that responded.
    ///   - info: The values of the `Authentication-Info` fields of `last`.
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
    /// The nonce count and client nonce for one request.
    fileprivate struct Use {
        let count: UInt32
        let cnonce: String
    }

    /// Returns the nonce count and client nonce for the next request.
    fileprivate func nextUse() -> Use { Use(count: nextCount(), cnonce: makeCnonce()) }

    /// Returns the nonce that replaces the current one (`nextnonce`).
    fileprivate func following(_ nonce: String) -> DigestNonce { DigestNonce(challenge.replacingNonce(with: nonce)) }
}

/// A server or proxy challenge that must be answered with a credential or a token, or rejected.
package struct AuthenticationQuestion: Sendable {
    package let space: ProtectionSpace
    /// The credential that would be sent for the space, if one is known.
    package let proposedCredential: URLCredential?
    /// The number of times, within one operation, that the server has refused credentials for the space.
    package let previousFailureCount: Int
    /// Whether the proposed credential must not be sent because the server has refused a credential for this realm,
    /// with any method.
    package let isRefused: Bool
    let server: AuthenticatingServer
    let challenge: HTTPChallenge
}

/// The action to take for a response with status 401 or 407.
package enum AuthenticationVerdict: Sendable {
    /// Deliver the response: none of its challenges can be answered.
    case none
    /// Send the same credential with the new nonce, because the old nonce was stale.
    case sendAgain
    /// The challenges to answer or reject, starting with the strongest method. The array is never empty.
    case ask([AuthenticationQuestion])
}

/// Counts of the credentials of an operation that servers have refused.
struct RefusalCounts: Sendable {
    private struct Realm: Hashable {
        let server: AuthenticatingServer
        let name: String?

        init(_ space: ProtectionSpace) {
            server = space.server
            name = space.realm
        }
    }

    private var spaces: [ProtectionSpace: Int] = [:]
    private var realms: Set<Realm> = []
    /// The number of times a server has responded to a credential with a challenge for a different realm.
    private var evasions: [AuthenticatingServer: Int] = [:]

    /// The maximum number of realms for one request. A server that uses more realms is making them up.
    private static let mostEvasions = 2

    /// Records that a server has refused the answer for a space.
    ///
    /// - Parameter offered: The realms of the server's new challenges. If the realm of the space is not among them, the
    ///   credential may still be valid for the space.
    mutating func note(_ space: ProtectionSpace, offering offered: [String?]) {
        if offered.contains(space.realm) {
            spaces[space, default: 0] += 1
            realms.insert(Realm(space))
        } else {
            evasions[space.server, default: 0] += 1
        }
    }

    /// Returns the number of refused credentials for a space. If a server keeps changing its realm, all refusals count.
    func count(in space: ProtectionSpace) -> Int {
        let evaded = evasions[space.server] ?? 0
        return (spaces[space] ?? 0) + (evaded > Self.mostEvasions ? evaded : 0)
    }

    /// Returns whether the server has refused a credential for the space with any method. In that case a weaker method
    /// is not tried automatically.
    func isRefused(_ space: ProtectionSpace) -> Bool { realms.contains(Realm(space)) || count(in: space) > 0 }
}
