import ConvoyOperations
import ConvoySupport
import Foundation

/// What the bytes of a partial file are bytes of: without it, nobody could say whether later ones belong to them.
package struct Representation: Sendable, Equatable {
    package var place: ResourcePlace
    /// The URL; nil for one out of a journal, which has it without its secrets only.
    private var url: URL?
    private var shown: String?
    /// What of the URL is secret.
    private var secrets = SecretClassifier.standard
    package var validators: KnownRepresentation.Validators
    /// The length of the whole, in bytes.
    package var total: Int64

    package init(
        url: URL, validators: KnownRepresentation.Validators, total: Int64, secrets: SecretClassifier = .standard
    ) {
        place = ResourcePlace(url)
        self.url = url
        self.secrets = secrets
        self.validators = validators
        self.total = total
    }

    package init(place: ResourcePlace, shownURL: String, validators: KnownRepresentation.Validators, total: Int64) {
        (self.place, shown, self.validators, self.total) = (place, shownURL, validators, total)
    }

    /// The URL without its secrets, for people.
    package var shownURL: String { shown ?? url.map { Redaction.url($0.absoluteString, secrets) } ?? "" }

    package static func == (one: Self, other: Self) -> Bool {
        one.place == other.place && one.validators == other.validators && one.total == other.total
    }
}
