import ConvoySupport
import Foundation
import FoundationNetworking

/// What one operation was asked for by servers and proxies, and what it has answered. Decisions only, without I/O; any
/// thread.
package final class AuthenticationRecord: RequestAuthorizer {
    private struct Answer {
        let space: ProtectionSpace
        let credential: URLCredential?
        /// For Digest.
        var nonce: DigestNonce?
        /// For Bearer.
        var token: String?
        /// Where it was asked for: the first target that it is sent for. It is remembered for that place, not for all others
        /// of the server to which redirects lead from there.
        var home: String?
        /// Whether this server was not asked by this operation, but by an earlier one.
        var isRemembered = false
    }

    /// An answer that was sent, and for which target.
    private struct Sent {
        let answer: Answer
        let uri: String
        /// For Digest: what of the request, beside its target, the server's proof has to cover.
        let use: DigestNonce.Use?
    }

    private struct State {
        /// What is sent to a server from now on.
        var answers: [AuthenticatingServer: Answer] = [:]
        /// What was sent with the last request.
        var sent: [AuthenticatingServer: Sent] = [:]
        var refusals = RefusalCounts()
        var rejected: Set<ProtectionSpace> = []
        /// How often in a row a server's nonce was too old.
        var staleInARow: [AuthenticatingServer: Int] = [:]
        /// Credentials to keep if the server accepts them, as a handler has supplied them.
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
        // One that was chosen and cannot be made for this request counts as sent: else it would be asked for, and chosen,
        // again and again.
        let sent = authorization == nil ? chosen : answer
        state.withLock {
            $0.sent[target.server] = sent.map { Sent(answer: $0, uri: target.uri, use: authorization == nil ? nil : use) }
        }
        return authorization
    }

    /// Whether the next request to a server needs a thread that may block.
    package func mayBlock(at uri: String, of server: AuthenticatingServer) -> Bool {
        let answered = state.withLock { $0.answers[server] }?.space
        return (answered ?? memory.entry(for: uri, of: server)?.space)?.method == .negotiate
    }

    /// An answer to what the server has asked others for.
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

    /// Judges the challenges of a response.
    ///
    /// - Parameters:
    ///   - fields: the values of `WWW-Authenticate`, or of `Proxy-Authenticate`.
    ///   - server: who has sent them.
    package func evaluate(_ fields: [String], of server: AuthenticatingServer) -> AuthenticationVerdict {
        let offers = Self.offers(HTTPChallenge.parse(fields))
        let open = state.withLock { state -> [(ProtectionSpace, HTTPChallenge, RefusalCounts)]? in
            let sent = state.sent.removeValue(forKey: server)?.answer
            state.toKeep[server] = nil
            if let sent {
                if isStale(sent, offers, &state, server) { return nil }
                state.answers[server] = nil
                memory.forget(sent.space, of: server)
                // A nonce of earlier may be one that the server has forgotten: that says nothing of the credential.
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

    /// Whether only the nonce of what was sent was too old (RFC 7616, section 3.3). Then the new one is used.
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

    /// The challenges that can be answered: one for each method and realm, the strongest first.
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
        // Stable, as `sort` is.
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

    /// Which methods the library and libcurl have. Those of libcurl are asked once.
    private static func isSupported(_ method: AuthenticationMethod) -> Bool {
        switch method {
        case .basic, .bearer, .digest: true
        case .ntlm, .negotiate: ConnectionAuthentication.isSupported(method)
        }
    }

    /// Whether a credential is one for a method: the tickets of Kerberos have no password, and a password is of no use
    /// to them.
    private static func isUsable(_ credential: URLCredential, for method: AuthenticationMethod) -> Bool {
        let isEmpty = (credential.user ?? "").isEmpty && (credential.password ?? "").isEmpty
        switch method {
        case .negotiate: return isEmpty
        case .bearer: return false
        case .basic, .digest, .ntlm: return !isEmpty
        }
    }

    // MARK: Answers

    /// Answers with a credential. False if it cannot be sent: a user name with a colon, say.
    ///
    /// - Parameter keeps: whether it is kept in the store once the server has accepted it.
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
        // They are C strings for libcurl.
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

    /// The space is not entered by this operation.
    package func reject(_ question: AuthenticationQuestion) {
        state.withLock { _ = $0.rejected.insert(question.space) }
    }

    // MARK: Success

    /// What is wrong with a server's proof that it knows the password (`rspauth`, RFC 7616, section 3.5); nil if it is
    /// right, if the server sends none, which it may, and if it covers a body, which was not kept.
    ///
    /// - Parameters:
    ///   - server: who has answered the last request.
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
        // What it did not know before, it is not sent again unless it asks.
        memory.forget(sent.answer.space, of: server)
        state.withLock { state in
            state.sent[server] = nil
            state.answers[server] = nil
            state.toKeep[server] = nil
        }
        return ResponseAuthenticationFailure(host: sent.answer.space.host, realm: challenge.realm)
    }

    /// The servers and proxies that the last request has passed have let it in: what they asked for is remembered.
    ///
    /// - Parameters:
    ///   - server: the one that has not.
    ///   - last: the server that has answered.
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
    /// The numbers of one request.
    fileprivate struct Use {
        let count: UInt32
        let cnonce: String
    }

    /// Those of one more request.
    fileprivate func nextUse() -> Use { Use(count: nextCount(), cnonce: makeCnonce()) }

    /// The nonce that the server wants to see next.
    fileprivate func following(_ nonce: String) -> DigestNonce { DigestNonce(challenge.replacingNonce(with: nonce)) }
}
