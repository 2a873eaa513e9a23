import ConvoySupport
import Foundation

/// What was done about a redirect (RFC 9110, section 15.4), and why.
public struct RedirectEvent: Sendable, Hashable {
    /// What became of the redirect.
    public enum Outcome: Sendable, Hashable {
        /// The request that follows from the rules was sent.
        case followed
        /// The redirect handler answered with another request, which was sent.
        case changedByHandler
        /// The redirect handler answered with nil: the redirecting response is the response.
        case keptAsResponse
        /// The transfer failed because of it.
        case refused(Refusal)
    }

    /// Why the next request has the method that it has.
    public enum MethodReason: String, Sendable, Hashable {
        /// 307 and 308 keep the method, and with it the body (RFC 9110, sections 15.4.8 and 15.4.9).
        case keptByStatus
        /// 303 asks for a GET, without the body (section 15.4.4); a HEAD stays a HEAD.
        case seeOther
        /// 301 and 302 turn a POST into a GET without the body, in all browsers (sections 15.4.2 and 15.4.3).
        case postBecomesGet
        /// 301 and 302 keep any other method, and with it the body.
        case keptAsNotPost
        /// The redirect handler chose it.
        case chosenByHandler
    }

    /// What became of the request's body.
    public enum BodyOutcome: String, Sendable, Hashable {
        /// There was none.
        case none
        /// It goes with the next request, too.
        case sentAgain
        /// The next request has none, as its method is another.
        case dropped
    }

    /// A header field that the next request lacks.
    public struct RemovedField: Sendable, Hashable {
        /// Why a field is removed.
        public enum Reason: String, Sendable, Hashable {
            /// It is a secret, by its name or its value or as `sensitiveHeaders` has it, and meant for another origin.
            case secretOfOtherOrigin
            /// It was meant for another origin, and is not known to be harmless. See
            /// ``ConnectionConfiguration/keepsHeadersAcrossOrigins``.
            case notKnownToBeHarmless
            /// `Host`, which names the first origin.
            case namesOtherOrigin
            /// It describes the body, which is not sent again.
            case describesBody
            /// A `Referer` with a user name or a password, one of https for plain text (RFC 9110, section 10.1.3), or one
            /// for another origin that is no URL.
            case revealingReferer
        }

        /// The field's name, as it was spelled.
        public let name: String
        /// Why it is removed.
        public let reason: Reason
    }

    /// The status of the redirecting response: 301, 302, 303, 307 or 308.
    public let statusCode: Int
    /// The URL that redirected.
    public let from: URL
    /// Where it led, without user information; nil for a `Location` that is no URL. Where the handler has chosen
    /// another URL, it is that one.
    public internal(set) var to: URL?
    /// The method of the request that was redirected.
    public let previousMethod: String
    /// The method of the next request; for a redirect that was not followed, the one that it would have had.
    public internal(set) var method: String
    /// Why `method` is what it is.
    public internal(set) var methodReason: MethodReason
    /// What became of the body.
    public internal(set) var body: BodyOutcome
    /// The fields that the next request lacks, by name.
    public internal(set) var removedFields: [RemovedField]
    /// Whether the next request, which is for another origin, has only the origin of its `Referer` (the
    /// `strict-origin-when-cross-origin` of the Referrer Policy standard).
    public internal(set) var shortensReferer = false
    /// What became of the redirect.
    public internal(set) var outcome: Outcome
    /// What the description hides.
    let secrets: SecretClassifier
}

extension RedirectEvent: CustomStringConvertible {
    /// A line without secrets: the status, both URLs, the methods, and the names of removed fields.
    public var description: String {
        var line = "\(statusCode) \(Redaction.url(from.absoluteString, secrets))"
        if let to { line += " -> \(Redaction.url(to.absoluteString, secrets))" }
        line += method == previousMethod ? ", \(method)" : ", \(previousMethod) becomes \(method)"
        line += " (\(methodReason.rawValue))"
        if body != .none { line += ", body \(body == .dropped ? "dropped" : "sent again")" }
        if !removedFields.isEmpty {
            line += ", without " + removedFields.map { "\($0.name) (\($0.reason.rawValue))" }.joined(separator: ", ")
        }
        if shortensReferer { line += ", with the origin of the Referer only" }
        switch outcome {
        case .followed: return line
        case .changedByHandler: return line + ", changed by the handler"
        case .keptAsResponse: return line + ", kept as the response"
        case .refused(let refusal): return line + ", refused: \(refusal.description)"
        }
    }
}

extension RedirectEvent: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
