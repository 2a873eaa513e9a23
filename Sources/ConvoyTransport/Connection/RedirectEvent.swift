import ConvoySupport
import Foundation
import FoundationNetworking

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
        /// The next request carries the body as well.
        case sentAgain
        /// The next request has none, as its method is another.
        case dropped
    }

    /// A header field that the next request lacks.
    public struct RemovedField: Sendable, Hashable {
        /// Why a field is removed.
        public enum Reason: String, Sendable, Hashable {
            /// The field is a secret, by its name or its value or as `sensitiveHeaders` has it, and meant for another origin.
            case secretOfOtherOrigin
            /// The field was meant for another origin, and is not known to be harmless. See
            /// ``ConnectionConfiguration/keepsHeadersAcrossOrigins``.
            case notKnownToBeHarmless
            /// `Host`, which names the first origin.
            case namesOtherOrigin
            /// The field describes the body, which is not sent again.
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
    /// The redirect's target, without user information; nil if the `Location` is not a URL. If the handler chose
    /// another URL, this is that one.
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
    /// Decides what the description masks.
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

extension RedirectEvent {
    /// Why a redirect ended the transfer with an error.
    public enum Refusal: Sendable, Hashable {
        /// There were more than `ConnectionConfiguration.maximumRedirects`, which is the limit.
        case tooManyRedirects(limit: Int)
        /// The same GET or HEAD, with the same fields, was sent before in this transfer, and no response since then
        /// has set a cookie or asked to wait: the answer would be the same.
        case loop
        /// The redirect leads from https to http, and `ConnectionConfiguration.allowsRedirectToPlainText` is false.
        case plainText
        /// The redirect leads to a scheme other than http and https.
        case unsupportedScheme(String)
        /// The `Location` is no URL, is empty, or has no host.
        case unreadableLocation
        /// The `Location` contains a control character.
        case controlCharacterInLocation
        /// The `Location` contains a user name or a password, which a server has no business to choose.
        case credentialsInLocation
        /// There are two different `Location` fields.
        case conflictingLocations
        /// The body would have to be sent to another origin, and neither
        /// ``ConnectionConfiguration/sendsBodiesAcrossOrigins`` nor the operation's `redirectHandler` allows that.
        case bodyForOtherOrigin
        /// The body must be sent again, but its stream cannot be read twice.
        case bodyCannotBeSentAgain
    }
}

extension RedirectEvent.Refusal: CustomStringConvertible {
    /// The reason in a sentence.
    public var description: String {
        switch self {
        case .tooManyRedirects(0): "The server redirects, and no redirect is allowed."
        case .tooManyRedirects(let limit): "More than \(limit) redirects."
        case .loop: "The redirect leads to a request that was redirected before."
        case .plainText: "A redirect leads from https to http, which would be readable on the way."
        case .unsupportedScheme: "A redirect leads to a URL that is neither http nor https."
        case .unreadableLocation: "The redirect's Location is not a URL."
        case .controlCharacterInLocation: "The redirect's Location contains a control character."
        case .credentialsInLocation: "The redirect's Location contains a user name or a password."
        case .conflictingLocations: "The redirect has two different Location fields."
        case .bodyForOtherOrigin:
            "The redirect requires sending the body to another origin, for which it was not meant. Set "
                + "sendsBodiesAcrossOrigins, or a redirectHandler, to allow that."
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
    /// A key in the `userInfo` of an error about a redirect that was refused: a `RedirectEvent.Refusal`.
    public static let redirectRefusalKey = "ConvoyRedirectRefusal"

    /// Why a redirect was refused; nil for other errors.
    ///
    /// The code is `.httpTooManyRedirects` for too many and for a loop, `.appTransportSecurityRequiresSecureConnection`
    /// for one from https to http, `.unsupportedURL` for another scheme, `.requestBodyStreamExhausted` for a stream
    /// that cannot be sent again, and else `.badServerResponse`.
    public var redirectRefusal: RedirectEvent.Refusal? {
        userInfo[Self.redirectRefusalKey] as? RedirectEvent.Refusal
    }

    /// The error of a refused redirect, about the URL that it leads to if there is one.
    init(refusing event: RedirectEvent, _ refusal: RedirectEvent.Refusal) {
        let error = URLError(refusal.code, url: event.to ?? event.from, refusal.description)
        self.init(error.code, describedBy: error.userInfo.merging([Self.redirectRefusalKey: refusal]) { $1 })
    }
}
