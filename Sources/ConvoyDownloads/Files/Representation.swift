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
    /// The media type, without parameters; nil if no answer has told it.
    package var type: String?
    /// Whether some of the bytes were accepted because a checksum would tell whether they belong to it.
    package var isCombined = false
    /// The length of the whole, in bytes.
    package var total: Int64

    package init(
        url: URL, validators: KnownRepresentation.Validators, type: String? = nil, total: Int64,
        secrets: SecretClassifier = .standard
    ) {
        place = ResourcePlace(url)
        self.url = url
        self.secrets = secrets
        self.validators = validators
        self.type = type
        self.total = total
    }

    package init(
        place: ResourcePlace, shownURL: String, validators: KnownRepresentation.Validators, type: String?, total: Int64
    ) {
        (self.place, shown, self.validators, self.type, self.total) = (place, shownURL, validators, type, total)
    }

    /// The URL without its secrets, for people.
    package var shownURL: String { shown ?? url.map { Redaction.url($0.absoluteString, secrets) } ?? "" }

    /// The media type that a `Content-Type` names; nil if it names none.
    static func type(_ value: String?) -> String? {
        let essence = value?.utf8.prefix { $0 != UInt8(ascii: ";") }
        guard let essence, case let type = ASCII.trimmed(essence), !type.isEmpty else { return nil }
        return String(decoding: type.map(ASCII.lowercased), as: UTF8.self)
    }

    package static func == (one: Self, other: Self) -> Bool {
        one.place == other.place && one.validators == other.validators && one.total == other.total
    }
}
