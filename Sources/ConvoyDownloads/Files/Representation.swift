import ConvoyOperations
import ConvoySecurity
import ConvoySupport
import Foundation

/// What the bytes of a partial file are bytes of: without it, it would be unknown whether later ones belong to them.
package struct Representation: Sendable, Equatable {
    package var place: ResourcePlace
    /// The URL; nil for one out of a journal, which has it without its secrets only.
    private var url: URL?
    private var shown: String?
    /// What of the URL is secret.
    private var secrets = SecretClassifier.standard
    package var validators: KnownRepresentation.Validators
    /// The media type, without parameters; nil if no answer has named it.
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
        guard let type = value.map({ ASCII.trimmed($0.utf8.prefix { $0 != UInt8(ascii: ";") }) }), !type.isEmpty else {
            return nil
        }
        // As nearly always.
        if type.allSatisfy({ $0 == ASCII.lowercased($0) }) { return String(Substring(type)) }
        return String(decoding: type.map(ASCII.lowercased), as: UTF8.self)
    }

    package static func == (one: Self, other: Self) -> Bool {
        one.place == other.place && one.validators == other.validators && one.total == other.total
    }
}

/// Where a resource is: its URL, without what only says who may fetch it, and until when.
///
/// Validators mean nothing at another URL. But what stands behind a redirect to a store in a cloud has a new signature in
/// its URL each time, and is the same all the same.
package struct ResourcePlace: Sendable, Equatable {
    private enum Form {
        case url(URL)
        /// As journals have it: a query may be a secret.
        case digest(String)
    }

    private let form: Form

    /// The place of a URL.
    package init(_ url: URL) { form = .url(url) }

    /// A place whose digest is known.
    package init(digest: String) { form = .digest(digest) }

    /// The SHA-256 digest of the place as hexadecimal digits.
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

    /// A URL without its fragment and the query items of a signature.
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

    /// A way to sign a URL. Its names are those of ordinary queries, too: only where all of those are there that it cannot
    /// do without, they say nothing of the resource.
    private struct Signature {
        let required: Set<String>
        var names: Set<String> = []
        var prefix: String?

        func covers(_ name: String) -> Bool {
            required.contains(name) || names.contains(name) || prefix.map { name.hasPrefix($0) } ?? false
        }
    }

    private static let signatures = [
        // S3 and its relatives, version 4 and 2.
        Signature(required: ["x-amz-signature"], prefix: "x-amz-"),
        Signature(required: ["awsaccesskeyid", "expires", "signature"], names: ["x-amz-security-token"]),
        // Google's store, in the same versions.
        Signature(required: ["x-goog-signature"], prefix: "x-goog-"),
        Signature(required: ["googleaccessid", "expires", "signature"]),
        // CloudFront, with a policy of its own or with the time alone.
        Signature(required: ["signature", "key-pair-id", "policy"]),
        Signature(required: ["signature", "key-pair-id", "expires"]),
        // Azure, and GitHub's releases, which are kept there.
        Signature(
            required: ["sig", "sv"],
            names: ["jwt", "se", "ske", "skoid", "sks", "skt", "sktid", "skv", "sp", "spr", "sr", "st"]),
    ]
}
