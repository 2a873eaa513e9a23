import ConvoyCache
import ConvoySecurity
import ConvoySerialization
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Hears what an operation's transfer does, and decides what the operation's own handlers leave open: for those that make
/// something else of operations, as sessions make tasks of them.
///
/// Called on any thread, the network thread too; it must not block, unless said otherwise. What it is asked it answers once,
/// now or later, on any thread. An operation whose delegate decides about redirects, responses or data shares its transfer
/// with nobody.
package protocol OperationDelegate: AnyObject, Sendable {
    /// What it wants to be asked about an operation now. Others are not.
    func interests(in operation: URLConnectionOperation) -> OperationInterests

    /// The operation begins, and its dependencies have finished. On a thread that may block; an error that it throws becomes
    /// the operation's.
    func willBegin(_ operation: URLConnectionOperation) throws

    /// A redirect is to be followed, with the request that the rules propose; nil keeps the redirecting response.
    func operation(
        _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
        decide: @escaping @Sendable (URLRequest?) -> Void)

    /// Somebody asks who the client is.
    func operation(
        _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
        answer: @escaping @Sendable (AuthenticationDisposition) -> Void)

    /// A body that was read is needed anew; nil where there is none. On a thread that may block.
    func newBodyStream(of operation: URLConnectionOperation) -> InputStream?

    /// A response is about to be stored. On a thread that may block.
    func operation(_ operation: URLConnectionOperation, willCache candidate: CacheCandidate) -> CacheCandidate?

    /// The head of a response has come whose body is the operation's. The transfer waits for the decision.
    func operation(
        _ operation: URLConnectionOperation, didReceive response: ResponseHead,
        decide: @escaping @Sendable (ResponseDecision) -> Void)

    /// Bytes of the body have come, decoded. Returns whether the transfer is to wait until `then` is called.
    func operation(
        _ operation: URLConnectionOperation, didReceive bytes: UnsafeRawBufferPointer,
        then: @escaping @Sendable () -> Void
    ) -> Bool

    /// How many bytes of the body there are; `count` of them since the last call.
    func operation(_ operation: URLConnectionOperation, didReceive count: Int64, total: Int64, expected: Int64?)

    /// How many bytes of the request's body have gone out; `count` of them since the last call.
    func operation(_ operation: URLConnectionOperation, didSend count: Int64, total: Int64, expected: Int64?)

    /// The body goes on behind bytes that were there already.
    func operation(_ operation: URLConnectionOperation, didResumeAt offset: Int64, expected: Int64?)
}

/// Who is interested in less need not say more.
extension OperationDelegate {
    package func willBegin(_ operation: URLConnectionOperation) throws {}
    package func newBodyStream(of operation: URLConnectionOperation) -> InputStream? { nil }
    package func operation(
        _ operation: URLConnectionOperation, willCache candidate: CacheCandidate
    ) -> CacheCandidate? { candidate }
    package func operation(
        _ operation: URLConnectionOperation, didReceive response: ResponseHead,
        decide: @escaping @Sendable (ResponseDecision) -> Void
    ) { decide(.allow) }
    package func operation(
        _ operation: URLConnectionOperation, didReceive bytes: UnsafeRawBufferPointer,
        then: @escaping @Sendable () -> Void
    ) -> Bool { false }
    package func operation(
        _ operation: URLConnectionOperation, didReceive count: Int64, total: Int64, expected: Int64?
    ) {}
    package func operation(_ operation: URLConnectionOperation, didSend count: Int64, total: Int64, expected: Int64?) {}
    package func operation(_ operation: URLConnectionOperation, didResumeAt offset: Int64, expected: Int64?) {}
}

/// What an operation's delegate is asked.
package struct OperationInterests: OptionSet, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let redirects = OperationInterests(rawValue: 1)
    package static let challenges = OperationInterests(rawValue: 2)
    package static let bodyStreams = OperationInterests(rawValue: 4)
    package static let caching = OperationInterests(rawValue: 8)
    package static let responses = OperationInterests(rawValue: 16)
    package static let data = OperationInterests(rawValue: 32)
    package static let progress = OperationInterests(rawValue: 64)
    package static let beginning = OperationInterests(rawValue: 128)
}

/// What becomes of a response's body.
package enum ResponseDecision: Sendable {
    /// It is taken as the operation takes bodies.
    case allow
    /// The operation fails with `URLError.cancelled`.
    case cancel
    /// It goes into a sink, in place of memory.
    case divert(any BodySink)
}

extension URLConnectionOperation {
    /// Sets the delegate. To be set before the operation starts; it is released when the handlers have run. A copy has
    /// none.
    package final func setDelegate(_ delegate: (any OperationDelegate)?) {
        setHandler(\.delegate, delegate)
        onlookers.insert(.delegate)
    }

    /// The delegate; nil, as a rule, for none.
    package final var delegate: (any OperationDelegate)? {
        onlookers.contains(.delegate) ? core.withLock { $0.rareHandlers?.delegate } : nil
    }

    /// The delegate, if it wants to be asked.
    final func delegate(interestedIn interest: OperationInterests) -> (any OperationDelegate)? {
        guard let delegate, !delegate.interests(in: self).isDisjoint(with: interest) else { return nil }
        return delegate
    }
}

/// For the operations that do parts of another's work: they ask what that one would ask.
final class PartDelegate: OperationDelegate {
    private struct Parent { weak var operation: URLConnectionOperation? }
    private let parent: Parent

    init(_ parent: URLConnectionOperation) { self.parent = Parent(operation: parent) }

    private func ask<Answer>(_ body: (any OperationDelegate, URLConnectionOperation) -> Answer) -> Answer? {
        guard let operation = parent.operation, let delegate = operation.delegate else { return nil }
        return body(delegate, operation)
    }

    func interests(in operation: URLConnectionOperation) -> OperationInterests {
        ask { $0.interests(in: $1).intersection([.redirects, .challenges]) } ?? []
    }

    func operation(
        _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        let isAsked: Void? = ask { $0.operation($1, willFollow: request, after: response, decide: decide) }
        if isAsked == nil { decide(request) }
    }

    func operation(
        _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
        answer: @escaping @Sendable (AuthenticationDisposition) -> Void
    ) {
        let isAsked: Void? = ask { $0.operation($1, didReceive: challenge, answer: answer) }
        if isAsked == nil { answer(.cancel) }
    }
}

/// Hears of each change of an operation's lifecycle before anybody else, and may let what follows from it wait.
package protocol OperationSupervisor: Sendable {
    /// The lifecycle has changed. `proceed` carries out what follows from that, and tells others; it must be called once,
    /// now or later, on any thread. Called on any thread, and must not block.
    func operation(
        _ operation: URLConnectionOperation, changes transition: AtomicLifecycle.Transition,
        proceed: @escaping @Sendable () -> Void)

    /// A failed attempt is followed by another after a delay. Called before the operation waits, on any thread, and must not
    /// block.
    ///
    /// - Parameter countedRetries: the retries that count against `RetryPolicy.maximumRetryCount`, this one among them.
    func operation(_ operation: URLConnectionOperation, willRetry event: RetryEvent, countedRetries: Int)
}

extension OperationSupervisor {
    package func operation(_ operation: URLConnectionOperation, willRetry event: RetryEvent, countedRetries: Int) {}
}

extension URLConnectionOperation {
    /// Sets who hears of changes first. To be set before anybody else knows the operation. A copy has none.
    package final func setSupervisor(_ supervisor: any OperationSupervisor) {
        setHandler(\.supervisor, supervisor)
        onlookers.insert(.supervisor)
    }

    /// Who hears of changes first; nil, as a rule, for nobody, and when the handlers have run.
    final var supervisor: (any OperationSupervisor)? {
        onlookers.contains(.supervisor) ? core.withLock { $0.rareHandlers?.supervisor } : nil
    }
}
