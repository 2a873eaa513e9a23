import Foundation
import FoundationNetworking

extension RedirectEvent {
    /// Why a redirect ended the transfer with an error.
    public enum Refusal: Sendable, Hashable {
        /// There were more than `ConnectionConfiguration.maximumRedirects`, which is the limit.
        case tooManyRedirects(limit: Int)
        /// The same GET or HEAD, with the same fields, was sent before in this transfer, and no response since then
        /// has set a cookie or asked to wait: the answer would be the same.
        case loop
        /// It leads from https to http, and `ConnectionConfiguration.allowsRedirectToPlainText` is false.
        case plainText
        /// It leads to a scheme other than http and https.
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
    /// A sentence for people.
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
