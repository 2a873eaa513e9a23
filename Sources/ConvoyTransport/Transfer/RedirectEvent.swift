import ConvoySupport
import Foundation
import FoundationNetworking

/// A record of how a redirect was handled (RFC 9110, section 15.4), and why.
public struct RedirectEvent: Sendable, Hashable {
    /// The outcome of a redirect.
    public enum Outcome: Sendable, Hashable {
        /// The request was sent as determined by the redirect rules.
        case followed
        /// The redirect handler returned a different request, which was sent.
        case changedByHandler
        /// The redirect is delivered as the response, because the redirect handler returned nil.
        case keptAsResponse
        /// The transfer failed because of the redirect.
        case refused(Refusal)
    }

    /// The reason for the method of the next request.
    public enum MethodReason: String, Sendable, Hashable {
        /// 307 and 308 keep the method and therefore the body (RFC 9110, sections 15.4.8 and 15.4.9).
        case keptByStatus
        /// 303 changes the method to GET, without the body (section 15.4.4). HEAD stays HEAD.
        case seeOther
        /// 301 and 302 change POST to GET, without the body, as in all browsers (sections 15.4.2 and 15.4.3).
        case postBecomesGet
        /// 301 and 302 keep any other method and therefore the body.
        case keptAsNotPost
        /// The redirect handler chose the method.
        case chosenByHandler
    }

    /// The handling of the request's body.
    public enum BodyOutcome: String, Sendable, Hashable {
        /// The request had no body.
        case none
        /// The next request includes the body.
        case sentAgain
        /// The next request has no body, because its method changed.
        case dropped
    }

    /// A header field that was removed from the next request.
    public struct RemovedField: Sendable, Hashable {
        /// The reason why a field was removed.
        package enum Reason: String, Sendable, Hashable {
            /// The field is a secret, by its name, its value or `sensitiveHeaders`, and was meant for another origin.
            case secretOfOtherOrigin
            /// The field was meant for another origin and is not known to be harmless. See
            /// ``ConnectionConfiguration/keepsHeadersAcrossOrigins``.
            case notKnownToBeHarmless
            /// The field is `Host`, which names the first origin.
            case namesOtherOrigin
            /// The field describes the body, which is not sent again.
            case describesBody
            /// The field is a `Referer` that contains a user name or a password, would reveal an https URL over plain
            /// text (RFC 9110, section 10.1.3), or is not a URL and would be sent to another origin.
            case revealingReferer
        }

        /// The name of the field, as spelled in the request.
        public let name: String
        /// The reason for the removal, which the description of the event contains.
        package let reason: Reason
    }

    /// The status of the redirecting response: 301, 302, 303, 307 or 308.
    public let statusCode: Int
    /// The URL of the request that was redirected.
    public let from: URL
    /// The target of the redirect, without user information, or the different URL that the handler chose; nil if the
    /// `Location` is not a URL.
    public internal(set) var to: URL?
    /// The method of the request that was redirected.
    public let previousMethod: String
    /// The method of the next request or, if the redirect was not followed, the method that it would have had.
    public internal(set) var method: String
    /// The reason why the next request has its `method`.
    public internal(set) var methodReason: MethodReason
    /// The handling of the body.
    public internal(set) var body: BodyOutcome
    /// The fields removed from the next request, by name. The description of the event contains the reasons.
    public internal(set) var removedFields: [RemovedField]
    /// Whether the `Referer` of the next request, which is for another origin, was shortened to its origin
    /// (`strict-origin-when-cross-origin` of the Referrer Policy standard).
    public internal(set) var shortensReferer = false
    /// The outcome of the redirect.
    public internal(set) var outcome: Outcome
    /// The classifier that determines which values the description masks.
    let secrets: SecretClassifier
}

extension RedirectEvent: CustomStringConvertible {
    /// A description in one line, without secrets: the status, both URLs, the methods, and the names of removed fields.
    public var description: String {
        var line = "\(statusCode) \(Redaction.url(from.absoluteString, secrets))"
        if let to { line += " -> \(Redaction.url(to.absoluteString, secrets))" }
        line += method == previousMethod ? ", \(method)" : ", \(previousMethod) becomes \(method)"
        line += " (\(methodReason.rawValue))"
        if body != .none { line += ", body \(body == .dropped ? "dropped" : "sent again")" }
        if !removedFields.isEmpty {
            line += ", without " + removedFields.map { "\($0.name) (\($0.reason.rawValue))" }.joined(separator: ", ")
        }
        if shortensReferer { line += ", Referer shortened to its origin" }
        switch outcome {
        case .followed: return line
        case .changedByHandler: return line + ", changed by the handler"
        case .keptAsResponse: return line + ", kept as the response"
        case .refused(let refusal): return line + ", refused: \(refusal.description)"
        }
    }
}

extension RedirectEvent: OpaqueReflectable {}

extension RedirectEvent {
    /// The reason why a redirect failed the transfer.
    public enum Refusal: Sendable, Hashable {
        /// The number of redirects exceeded `ConnectionConfiguration.maximumRedirects`, which is the associated value.
        case tooManyRedirects(limit: Int)
        /// The same GET or HEAD, with the same fields, was already sent in this transfer, and no response since then
        /// has set a cookie or requested a delay. The server would redirect again.
        case loop
        /// The redirect leads from https to http, and `ConnectionConfiguration.allowsRedirectToPlainText` is false.
        case plainText
        /// The redirect leads to a scheme other than http and https.
        case unsupportedScheme(String)
        /// The `Location` is empty, is not a URL, or has no host.
        case unreadableLocation
        /// The `Location` contains a control character.
        case controlCharacterInLocation
        /// The `Location` contains a user name or a password, which a server must not choose.
        case credentialsInLocation
        /// The response has two different `Location` fields.
        case conflictingLocations
        /// The body would have to be sent to another origin, which neither
        /// ``ConnectionConfiguration/sendsBodiesAcrossOrigins`` nor the operation's `redirectHandler` allows.
        case bodyForOtherOrigin
        /// The body must be sent again, but its stream cannot be read twice.
        case bodyCannotBeSentAgain
    }
}

extension RedirectEvent.Refusal: CustomStringConvertible {
    /// A message that describes the reason.
    public var description: String {
        switch self {
        case .tooManyRedirects(0): "The server sent a redirect, but redirects are not allowed."
        case .tooManyRedirects(let limit): "The server sent more than \(limit) redirects."
        case .loop: "The redirects form a loop."
        case .plainText: "The redirect leads from https to http, which is not encrypted."
        case .unsupportedScheme: "The redirect's scheme is not http or https."
        case .unreadableLocation: "The redirect's Location is not a URL."
        case .controlCharacterInLocation: "The redirect's Location contains a control character."
        case .credentialsInLocation: "The redirect's Location contains a user name or a password."
        case .conflictingLocations: "The redirect has conflicting Location fields."
        case .bodyForOtherOrigin:
            "The redirect requires sending the body to another origin. To allow that, set "
                + "sendsBodiesAcrossOrigins or a redirectHandler."
        case .bodyCannotBeSentAgain:
            "The redirect requires sending the body again, but its stream cannot be read twice."
        }
    }

    var code: URLError.Code {
        switch self {
        case .tooManyRedirects, .loop: .httpTooManyRedirects
        case .plainText: .appTransportSecurityRequiresSecureConnection
        case .unsupportedScheme: .unsupportedURL
        case .unreadableLocation, .controlCharacterInLocation, .credentialsInLocation, .conflictingLocations,
            .bodyForOtherOrigin:
            .badServerResponse
        case .bodyCannotBeSentAgain: .requestBodyStreamExhausted
        }
    }
}

extension URLError {
    /// The `userInfo` key for the reason why a redirect was refused. Its value is a `RedirectEvent.Refusal`.
    public static let redirectRefusalKey = "ConvoyRedirectRefusal"

    /// The reason why a redirect was refused; nil for other errors.
    ///
    /// The error code is `.httpTooManyRedirects` for too many redirects and for a loop,
    /// `.appTransportSecurityRequiresSecureConnection` for a redirect from https to http, `.unsupportedURL` for an
    /// unsupported scheme, `.requestBodyStreamExhausted` for a stream that cannot be read again, and
    /// `.badServerResponse` otherwise.
    public var redirectRefusal: RedirectEvent.Refusal? {
        userInfo[Self.redirectRefusalKey] as? RedirectEvent.Refusal
    }

    /// Creates the error for a refused redirect, with the URL of the target if it is known.
    init(refusing event: RedirectEvent, _ refusal: RedirectEvent.Refusal) {
        self = URLError(refusal.code, url: event.to ?? event.from, refusal.description)
            .adding(refusal, for: Self.redirectRefusalKey)
    }
}
