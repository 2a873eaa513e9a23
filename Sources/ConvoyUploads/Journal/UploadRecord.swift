import ConvoyDownloads
import ConvoySupport
import Foundation

/// The journaled state of an upload: the source, the URL on the server, and the number of confirmed bytes.
struct UploadRecord: Codable, Sendable, Hashable {
    /// An upload on the server: the complete source, or one of several concurrent parts.
    struct Part: Codable, Sendable, Hashable {
        /// The URL without its secrets.
        var url: String
        /// Whether the URL had secrets.
        var isHidden: Bool?
        /// The start and end of the part in the source; the end is nil while unknown.
        var first: Int64
        var end: Int64?
        /// The number of bytes of the part that the server has confirmed.
        var offset: Int64
        /// The maximum number of bytes of the part that may have been sent.
        var bound: Int64
    }

    /// The digest that identifies the resource of the request; see `ResourcePlace`.
    var place: String
    /// The URL of the request for display, without secrets.
    var shown: String
    /// The protocol; nil until it is determined.
    var uploadProtocol: UploadProtocol?
    var parts: [Part] = []
    var source: SourceIdentity?
    /// The time at which the source was inspected, in nanoseconds since 1970.
    var seen: Int64 = 0
    /// The SHA-256 digest of a confirmed prefix of the source, and the length of that prefix.
    var digest: String?
    var digested: Int64 = 0
    /// The time at which the upload expires, as sent by the server.
    var expires: String?
    /// Whether the request that combines the parts was sent and its response is missing.
    var isCombining: Bool?
    /// The data stored by an adapter.
    var stored: Data?
}

/// The removal of secrets from an upload's URL for the journal, and their restoration.
enum UploadURLSecrets {
    /// Returns the URL without user information and without secrets in its query, and whether anything was removed.
    static func hidden(_ url: URL, _ secrets: SecretClassifier) -> (text: String, isHidden: Bool) {
        let text = url.absoluteString
        let shown = Redaction.url(text, secrets)
        return (shown, !shown.utf8.elementsEqual(text.utf8))
    }

    /// Returns a journaled URL, with the secrets of the request's URL inserted by name; nil if other secrets are
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

    /// Returns the raw items of a query by their raw names.
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
