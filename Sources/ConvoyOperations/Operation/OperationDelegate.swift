import ConvoyCache
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A delegate that follows an operation's transfer and makes the decisions that the operation's own handlers do not
/// make. Sessions use it to turn operations into tasks.
///
/// Its methods are called on any thread, including the network thread, and must not block unless documented otherwise.
/// The delegate calls each `decide` or `answer` closure once, immediately or later, on any thread. An operation whose
/// delegate decides about redirects, responses or data does not share its transfer.
package protocol OperationDelegate: AnyObject, Sendable {
    /// Returns the set of events that the delegate currently handles for an operation.
    func interests(in operation: URLConnectionOperation) -> OperationInterests

    /// Called when the operation begins, after its dependencies have finished, on a thread that may block. An error
    /// that this method throws becomes the operation's error.
    func willBegin(_ operation: URLConnectionOperation) throws

    /// Decides about a redirect, given the request proposed by the redirect rules. Passing nil to `decide` makes the
    /// redirect response the final response.
    func operation(
        _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
        decide: @escaping @Sendable (URLRequest?) -> Void)

    /// Whether the answer to a redirect is the user's own decision, and thus the consent to send the body to another
    /// origin.
    var decidesForUser: Bool { get }

    /// Answers a challenge.
    func operation(
        _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
        answer: @escaping @Sendable (AuthenticationDisposition) -> Void)

    /// Returns a new stream for a body that has already been read; nil if no stream is available. Called on a thread
    /// that may block.
    func newBodyStream(of operation: URLConnectionOperation) -> InputStream?

    /// Decides about storing a response. Called on a thread that may block.
    func operation(_ operation: URLConnectionOperation, willCache candidate: CacheCandidate) -> CacheCandidate?

    /// Decides about the final response. The transfer waits for the decision.
    func operation(
        _ operation: URLConnectionOperation, didReceive response: ResponseHead,
        decide: @escaping @Sendable (ResponseDecision) -> Void)

    /// Receives decoded bytes of the body. Returns whether the transfer must wait until `then` is called.
    func operation(
        _ operation: URLConnectionOperation, didReceive bytes: UnsafeRawBufferPointer,
        then: @escaping @Sendable () -> Void
    ) -> Bool

    /// Reports the total number of body bytes received, including `count` bytes since the last call.
    func operation(_ operation: URLConnectionOperation, didReceive count: Int64, total: Int64, expected: Int64?)

    /// Reports the total number of request body bytes sent, including `count` bytes since the last call.
    func operation(_ operation: URLConnectionOperation, didSend count: Int64, total: Int64, expected: Int64?)

    /// Reports that the body continues after the first `offset` bytes, which are already stored.
    func operation(_ operation: URLConnectionOperation, didResumeAt offset: Int64, expected: Int64?)
}

/// Default implementations.
extension OperationDelegate {
    package func willBegin(_ operation: URLConnectionOperation) throws {}
    package var decidesForUser: Bool { true }
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

/// The events that an operation's delegate handles.
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

/// The decision about a response's body.
package enum ResponseDecision: Sendable {
    /// Receive the body as usual.
    case allow
    /// Fail with `URLError.cancelled`.
    case cancel
    /// Write the body to a sink instead of keeping it in memory.
    case divert(any BodySink)
}

extension URLConnectionOperation {
    /// Sets the delegate. Call this before the operation starts. The delegate is released when the handlers have run.
    /// Copies have no delegate.
    package final func setDelegate(_ delegate: (any OperationDelegate)?) {
        setHandler(\.delegate, delegate)
        declare(.delegate)
    }

    /// The delegate; usually nil.
    package final var delegate: (any OperationDelegate)? {
        has(.delegate) ? handler(\.delegate) : nil
    }

    /// Returns the delegate if it handles the given events; otherwise nil.
    final func delegate(interestedIn interest: OperationInterests) -> (any OperationDelegate)? {
        guard let delegate, !delegate.interests(in: self).isDisjoint(with: interest) else { return nil }
        return delegate
    }
}

/// The delegate of a partial operation, which forwards redirects and challenges to the delegate of the parent
/// operation.
final class ForwardingDelegate: OperationDelegate {
    private struct Parent { weak var operation: URLConnectionOperation? }
    private let parent: Parent

    init(_ parent: URLConnectionOperation) { self.parent = Parent(operation: parent) }

    private func ask<Answer>(_ body: (any OperationDelegate, URLConnectionOperation) -> Answer) -> Answer? {
        guard let operation = parent.operation, let delegate = operation.delegate else { return nil }
        return body(delegate, operation)
    }

    var decidesForUser: Bool { ask { delegate, _ in delegate.decidesForUser } ?? true }

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
