import ConvoyDownloads
import ConvoySupport
import Foundation

/// What a journal says of an upload: of which source it is, where the server has it, and how much of it the server has
/// confirmed.
struct UploadRecord: Codable, Sendable, Hashable {
    /// An upload at the server: the whole, or a part of it that is sent beside others.
    struct Part: Codable, Sendable, Hashable {
        /// The URL without its secrets.
        var url: String
        /// Whether the URL had secrets.
        var isHidden: Bool?
        /// Where it begins in the source, and where it ends; nil as long as that is unknown.
        var first: Int64
        var end: Int64?
        /// How many of its bytes the server has confirmed.
        var offset: Int64
        /// How many of its bytes may have been sent at most.
        var bound: Int64
    }

    /// Which resource the request is for; see `ResourcePlace`.
    var place: String
    /// Its URL without secrets, for people.
    var shown: String
    /// The protocol; nil as long as the server was not asked.
    var uploadProtocol: UploadProtocol?
    var parts: [Part] = []
    var source: SourceIdentity?
    /// When the source was looked at, in nanoseconds since 1970.
    var seen: Int64 = 0
    /// The SHA-256 of the first bytes of the source, all of which were confirmed, and how many these are.
    var digest: String?
    var digested: Int64 = 0
    /// When the upload ends at the server, as that says it.
    var expires: String?
    /// What an adapter has stored.
    var stored: Data?
}

/// The URL of an upload as a journal keeps it, and as it is used again.
enum UploadURLSecrets {
    /// The URL without user information and secrets of its query, and whether it had any.
    static func hidden(_ url: URL, _ secrets: SecretClassifier) -> (text: String, isHidden: Bool) {
        let text = url.absoluteString
        let shown = Redaction.url(text, secrets)
        return (shown, !shown.utf8.elementsEqual(text.utf8))
    }

    /// The URL that a journal has, with the secrets of the request's URL where they have the same names; nil where others are
    /// missing.
    static func filled(_ text: String, isHidden: Bool, from request: URL?) -> URL? {
        guard isHidden else { return URL(string: text) }
        guard let mark = text.utf8.firstIndex(of: UInt8(ascii: "?")) else { return nil }
        let known = items(request?.absoluteString ?? "")
        let filled = text.utf8[text.utf8.index(after: mark)...].split(
            separator: UInt8(ascii: "&"), omittingEmptySubsequences: false
        ).map { item -> String in
            let text = String(decoding: item, as: UTF8.self)
            guard text.hasSuffix("=" + Redaction.mask), let secret = known[String(text.dropLast(Redaction.mask.count + 1))]
            else { return text }
            return secret
        }
        let whole = String(decoding: text.utf8[...mark], as: UTF8.self) + filled.joined(separator: "&")
        return whole.contains(Redaction.mask) ? nil : URL(string: whole)
    }

    /// The items of a query by their names, both as they are written.
    private static func items(_ url: String) -> [String: String] {
        guard let mark = url.utf8.firstIndex(of: UInt8(ascii: "?")) else { return [:] }
        let query = url.utf8[url.utf8.index(after: mark)...].prefix { $0 != UInt8(ascii: "#") }
        var items: [String: String] = [:]
        for item in query.split(separator: UInt8(ascii: "&")) {
            let name = String(decoding: item.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
            items[name] = String(decoding: item, as: UTF8.self)
        }
        return items
    }
}
