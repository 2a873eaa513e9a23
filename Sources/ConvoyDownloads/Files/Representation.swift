import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// The identity of the data in a partial file, which determines whether later bytes can be added to the file.
package struct Representation: Sendable, Equatable {
    package var place: ResourcePlace
    /// The URL; nil if read from a journal, which stores it without its secrets.
    private var url: URL?
    private var shown: String?
    /// The classifier for the secret parts of the URL.
    private var secrets = SecretClassifier.standard
    package var validators: RepresentationFacts.Validators
    /// The media type, without parameters; nil if no response has specified it.
    package var type: String?
    /// Whether some of the bytes are valid only if a checksum confirms them.
    package var isCombined = false
    /// The complete length, in bytes.
    package var total: Int64

    package init(
        url: URL, validators: RepresentationFacts.Validators, type: String? = nil, total: Int64,
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
        place: ResourcePlace, shownURL: String, validators: RepresentationFacts.Validators, type: String?, total: Int64
    ) {
        self.place = place
        shown = shownURL
        self.validators = validators
        self.type = type
        self.total = total
    }

    /// The URL for display, without its secrets.
    package var shownURL: String { shown ?? url.map { Redaction.url($0.absoluteString, secrets) } ?? "" }

    /// Returns the media type in a `Content-Type`; nil if it is missing.
    static func type(_ value: String?) -> String? {
        guard let type = value.map({ ASCII.trimmed($0.utf8.prefix { $0 != UInt8(ascii: ";") }) }), !type.isEmpty else {
            return nil
        }
        // Servers usually send types in lowercase.
        if type.allSatisfy({ $0 == ASCII.lowercased($0) }) { return String(Substring(type)) }
        return String(decoding: type.map(ASCII.lowercased), as: UTF8.self)
    }

    package static func == (one: Self, other: Self) -> Bool {
        one.place == other.place && one.validators == other.validators && one.total == other.total
    }
}

/// The location of a resource: its URL without the parts that only authorize access for some time.
///
/// Validators apply only to one URL. However, a redirect to cloud storage leads to the same resource with a new
/// signature in the URL each time.
package struct ResourcePlace: Sendable, Equatable {
    private enum Form {
        case url(URL)
        /// The digest of the location, as stored in journals, because a query may be secret.
        case digest(String)
    }

    private let form: Form

    /// Creates the location of the resource at a URL.
    package init(_ url: URL) { form = .url(url) }

    /// Creates a location from its digest.
    package init(digest: String) { form = .digest(digest) }

    /// The SHA-256 digest of the location, in hexadecimal digits.
    package var digest: String {
        switch form {
        case .digest(let digest): return digest
        case .url(let url):
            let digest = MessageDigest()
            digest.update(Data(Self.text(of: url).utf8))
            return digest.value()?.hexadecimalString ?? ""
        }
    }

    package static func == (one: Self, other: Self) -> Bool {
        if case .url(let one) = one.form, case .url(let other) = other.form {
            return text(of: one).utf8.elementsEqual(text(of: other).utf8)
        }
        return one.digest.utf8.elementsEqual(other.digest.utf8)
    }

    /// Returns a URL without its fragment and the query items of a signature.
    package static func text(of url: URL) -> String {
        let whole = (HTTPAddress(url.absoluteString)?.text ?? url.absoluteString).utf8.prefix { $0 != UInt8(ascii: "#") }
        guard let mark = whole.firstIndex(of: UInt8(ascii: "?")) else { return String(decoding: whole, as: UTF8.self) }
        let items = whole[whole.index(after: mark)...].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        let names = items.map {
            String(decoding: $0.prefix { $0 != UInt8(ascii: "=") }.map(ASCII.lowercased), as: UTF8.self)
        }
        let signatures = signatures.filter { $0.required.isSubset(of: names) }
        let kept = zip(items, names).filter { _, name in !signatures.contains { $0.covers(name) } }
        return String(decoding: whole[...mark], as: UTF8.self)
            + kept.map { String(decoding: $0.0, as: UTF8.self) }.joined(separator: "&")
    }

    /// A scheme for signing URLs. Because ordinary queries use the same names, items are removed only if all required
    /// ones are present.
    private struct Signature {
        let required: Set<String>
        var names: Set<String> = []
        var prefix: String?

        func covers(_ name: String) -> Bool {
            required.contains(name) || names.contains(name) || prefix.map { name.hasPrefix($0) } ?? false
        }
    }

    private static let signatures = [
        // S3 and compatible stores, versions 4 and 2.
        Signature(required: ["x-amz-signature"], prefix: "x-amz-"),
        Signature(required: ["awsaccesskeyid", "expires", "signature"], names: ["x-amz-security-token"]),
        // Google Cloud Storage, in the same versions.
        Signature(required: ["x-goog-signature"], prefix: "x-goog-"),
        Signature(required: ["googleaccessid", "expires", "signature"]),
        // CloudFront, with a custom policy or an expiry time only.
        Signature(required: ["signature", "key-pair-id", "policy"]),
        Signature(required: ["signature", "key-pair-id", "expires"]),
        // Azure, and GitHub releases, which are stored there.
        Signature(
            required: ["sig", "sv"],
            names: ["jwt", "se", "ske", "skoid", "sks", "skt", "sktid", "skv", "sp", "spr", "sr", "st"]),
    ]
}
