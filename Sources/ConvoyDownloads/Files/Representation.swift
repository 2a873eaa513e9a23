import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation

/// What the bytes of a partial file are bytes of: without it, nobody could say whether later ones belong to them.
package struct Representation: Sendable, Equatable {
    /// The digest of its place.
    package var place: String
    /// The URL without its secrets, for people.
    package var shownURL: String
    package var validators: Resumption.Validators
    /// The length of the whole, in bytes.
    package var total: Int64

    package init(url: URL, validators: Resumption.Validators, total: Int64) {
        place = ResourcePlace.digest(of: url)
        shownURL = Redaction.url(url.absoluteString)
        self.validators = validators
        self.total = total
    }

    package init(place: String, shownURL: String, validators: Resumption.Validators, total: Int64) {
        (self.place, self.shownURL, self.validators, self.total) = (place, shownURL, validators, total)
    }
}
