/// Decides which header fields, items of queries and forms, and members of JSON are secret. Redirects, logs, errors,
/// files and the command-line tool share it, so that a secret is hidden everywhere or nowhere.
///
/// It decides by the parts of a name (see ``SecretName``), by values that are secrets under any name, and by what the
/// user has added.
package struct SecretClassifier: Sendable, Hashable {
    /// The classifier without additions.
    package static let standard = SecretClassifier()

    /// Names of header fields that the user has marked, as they were given.
    private let fields: Set<String>
    /// nil for the standard names, so that copying costs nothing.
    private let items: ItemNames?

    /// - Parameters:
    ///   - fields: names of header fields that are secrets, besides those whose names say so.
    ///   - items: names of items; nil for the standard ones.
    package init(fields: Set<String> = [], items: ItemNames? = nil) {
        self.fields = fields
        self.items = items
    }

    // MARK: Header fields

    /// Whether a header field may contain a secret, by its name. A challenge (`WWW-Authenticate`) contains none of the
    /// client's.
    package func contains(_ name: String) -> Bool { isMarked(name) || SecretName.verdict(on: name.utf8) != .harmless }

    /// Whether the value of a header field is a secret.
    package func hides(field name: String, _ value: String) -> Bool {
        isMarked(name) || SecretName.verdict(on: name.utf8).hides(value.utf8) || SecretName.isTelling(value.utf8)
    }

    /// The value of a header field with its secrets masked.
    package func shown(_ name: String, _ value: String) -> String {
        if value.isEmpty { return value }
        if hides(field: name, value) { return Redaction.mask }
        return Self.isReference(name) ? Redaction.url(value, self) : Redaction.text(value, self)
    }

    private func isMarked(_ name: String) -> Bool {
        !fields.isEmpty && fields.contains { ASCII.equalIgnoringCase($0.utf8, name.utf8) }
    }

    /// Whether the whole value of this field is a URL, which may be relative and may contain spaces.
    private static func isReference(_ name: String) -> Bool {
        ["location", "content-location", "referer", ":path"].contains { ASCII.equalIgnoringCase($0.utf8, name.utf8) }
    }

    /// Whether a redirect to another origin may keep a field, as it is not meant for one origin alone: the fields that
    /// the Fetch standard allows in any request ("CORS-safelisted"), those that describe the body, also that of a resumable upload, or ask for
    /// a part of the response or for a newer one, and those about caches, traces and the connection.
    package static func isHarmless(_ name: String) -> Bool {
        let name = name.lowercased()
        return name.hasPrefix("accept") && SecretName.verdict(on: name.utf8) == .harmless || harmless.contains(name)
    }

    private static let harmless: Set<String> = [
        "user-agent", "content-type", "content-language", "content-encoding", "content-length", "content-location",
        "content-disposition", "content-range", "content-md5", "content-digest", "digest", "repr-digest", "want-digest",
        "want-content-digest", "want-repr-digest", "last-modified", "range", "if-range", "if-match", "if-none-match",
        "if-modified-since", "if-unmodified-since", "cache-control", "pragma", "date", "dnt", "expect", "last-event-id",
        "prefer", "priority", "save-data", "te", "traceparent", "tracestate", "trailer", "transfer-encoding", "connection",
        "keep-alive", "upgrade-insecure-requests", "tus-resumable", "upload-checksum", "upload-complete", "upload-concat",
        "upload-defer-length", "upload-draft-interop-version", "upload-incomplete", "upload-length", "upload-metadata",
        "upload-offset",
    ]

    // MARK: Items

    /// Whether the value of an item of a query or a form is a secret.
    ///
    /// - Parameters:
    ///   - name: decoded.
    ///   - value: decoded.
    package func hides(item name: some Collection<UInt8>, _ value: some Collection<UInt8>) -> Bool {
        guard let items else { return SecretName.verdict(on: name).hides(value) || SecretName.isTelling(value) }
        return items.contains(name) || SecretName.verdict(on: name, items.words).hides(value)
            || (items.words.contains("token") && SecretName.isTelling(value))
    }

    /// Whether the value of a member of JSON is a secret: a text is treated like an item, an array or an object by its
    /// name.
    package func hides(member name: String, _ value: String?) -> Bool { hides(item: name.utf8, (value ?? "-").utf8) }

    /// The names of items whose values are hidden, if the user has set them.
    package struct ItemNames: Sendable, Hashable {
        /// The names as the program gave them.
        package let names: Set<String>
        /// Names that are not words of the standard set: compared as a whole, in normalized form.
        private let whole: Set<[UInt8]>
        /// Names that are words of the standard set.
        fileprivate let words: Set<String>

        /// - Parameter names: words of the standard set, which match in any name that contains them, and whole names.
        ///   For whole names, case, `-` and `_` do not matter, and in `user[password]` each part is compared.
        package init(_ names: Set<String>) {
            self.names = names
            words = SecretName.standard.intersection(names)
            whole = Set(names.subtracting(words).map { Self.folded($0.utf8) })
        }

        fileprivate func contains(_ name: some Collection<UInt8>) -> Bool {
            if whole.isEmpty { return false }
            if whole.contains(Self.folded(name)) { return true }
            guard name.contains(UInt8(ascii: "[")) else { return false }
            return name.split(whereSeparator: { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "]") })
                .contains { whole.contains(Self.folded($0)) }
        }

        private static func folded(_ name: some Collection<UInt8>) -> [UInt8] {
            name.compactMap { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") ? nil : ASCII.lowercased($0) }
        }
    }
}
