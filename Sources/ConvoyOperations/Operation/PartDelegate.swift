import ConvoySecurity
import Foundation
import FoundationNetworking

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
