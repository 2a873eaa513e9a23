import Foundation
import FoundationNetworking
import Synchronization

/// A redirect (RFC 9110, section 15.4) and the request that follows it. A value without I/O.
public struct Redirect: Sendable {
    /// The response that redirects.
    public let response: ResponseHead
    /// The request to follow with.
    ///
    /// If the origin (scheme, host, port) changed, it lacks `Host`, what is secret, and what is not known to be harmless;
    /// see `ConnectionConfiguration.keepsHeadersAcrossOrigins`. What was removed once does not come back, not even if a later
    /// redirect leads back to the first origin.
    public var request: URLRequest
    /// What follows from the rules, and why.
    public let event: RedirectEvent
    /// Set if the request has a body that only a user's decision sends to another origin.
    package let bodyConsent: BodyConsent?

    init(response: ResponseHead, request: URLRequest, event: RedirectEvent, bodyConsent: BodyConsent? = nil) {
        self.response = response
        self.request = request
        self.event = event
        self.bodyConsent = bodyConsent
    }

    /// Whether a user has decided about a body that would go to another origin.
    package final class BodyConsent: Sendable {
        private let isGiven = Atomic(false)

        /// Says that what is answered is a user's own decision.
        package func give() { isGiven.store(true, ordering: .releasing) }

        fileprivate var wasGiven: Bool { isGiven.load(ordering: .acquiring) }
    }

    /// Whether a request must not be sent as its body is not meant for where it leads.
    func withholdsBody(of request: URLRequest) -> Bool {
        guard let bodyConsent, !bodyConsent.wasGiven else { return false }
        return request.httpBody?.isEmpty == false || request.httpBodyStream != nil
    }

    /// The event if this request is sent, or, for nil, if the redirect is kept as the response.
    func event(sending answer: URLRequest?) -> RedirectEvent {
        var event = event
        guard let answer else {
            event.outcome = .keptAsResponse
            return event
        }
        // `==` of requests ignores their fields.
        guard
            answer.url != request.url || answer.httpMethod != request.httpMethod
                || answer.allHTTPHeaderFields != request.allHTTPHeaderFields
        else { return event }
        event.outcome = .changedByHandler
        event.to = answer.url?.withoutUserInfo
        if let method = answer.httpMethod, method != event.method {
            event.method = method
            event.methodReason = .chosenByHandler
        }
        event.removedFields.removeAll { answer.value(forHTTPHeaderField: $0.name) != nil }
        return event
    }
}

extension Redirect: CustomStringConvertible {
    /// That of the event, which has no secrets.
    public var description: String { event.description }
}

extension Redirect: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
