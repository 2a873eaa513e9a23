/// Decides which header fields, query and form items, and JSON members are secret. Redirects, logs, errors, files and
/// the command-line tool all use this type, so that they hide the same secrets.
///
/// The decision depends on the parts of a name (see ``SecretName``), on values that are secret under any name, and on
/// the names that the user has added.
package struct SecretClassifier: Sendable, Hashable {
    /// The classifier without user-defined names.
    package static let standard = SecretClassifier()

    /// The header field names marked as secret by the user, as specified.
    private let fields: Set<String>
    /// The item names that the user has set; nil for the standard names, so that copying the classifier is free.
    private let items: ItemNames?

    /// - Parameters:
    ///   - fields: The names of additional secret header fields.
    ///   - items: The names of secret items; nil for the standard names.
    package init(fields: Set<String> = [], items: ItemNames? = nil) {
        self.fields = fields
        self.items = items
    }

    // MARK: Header fields

    /// Returns whether the name of a header field indicates a secret. A challenge (`WWW-Authenticate`) contains no
    /// client secrets.
    package func contains(_ name: String) -> Bool { isMarked(name) || SecretName.verdict(on: name.utf8) != .harmless }

    /// Returns whether the value of a header field is secret.
    package func hides(field name: String, _ value: String) -> Bool {
        isMarked(name) || SecretName.verdict(on: name.utf8).hides(value.utf8) || SecretName.isTelling(value.utf8)
    }

    /// Returns the value of a header field with its secrets masked.
    package func shown(_ name: String, _ value: String) -> String {
        if value.isEmpty { return value }
        if hides(field: name, value) { return Redaction.mask }
        return Self.isReference(name) ? Redaction.url(value, self) : Redaction.text(value, self)
    }

    private func isMarked(_ name: String) -> Bool {
        !fields.isEmpty && fields.contains { ASCII.equalIgnoringCase($0.utf8, name.utf8) }
    }

    /// Returns whether the entire value of the named field is a URL, which may be relative and may contain spaces.
    private static func isReference(_ name: String) -> Bool {
        ["location", "content-location", "referer", ":path"].contains { ASCII.equalIgnoringCase($0.utf8, name.utf8) }
    }

    /// Returns whether a field is kept when a redirect leads to another origin, because it is not specific to one
    /// origin. This includes fields that the Fetch standard allows in any request ("CORS-safelisted"); fields that
    /// describe the body, including that of a resumable upload; range and conditional fields; and fields for caching,
    /// tracing and the connection.
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

    /// Returns whether the value of a query or form item is secret.
    ///
    /// - Parameters:
    ///   - name: The decoded name.
    ///   - value: The decoded value.
    package func hides(item name: some Collection<UInt8>, _ value: some Collection<UInt8>) -> Bool {
        guard let items else { return SecretName.verdict(on: name).hides(value) || SecretName.isTelling(value) }
        return items.contains(name) || SecretName.verdict(on: name, items.words).hides(value)
            || (items.words.contains("token") && SecretName.isTelling(value))
    }

    /// Returns whether the value of a JSON member is secret. Strings are classified like items; arrays and objects by
    /// their names only.
    package func hides(member name: String, _ value: String?) -> Bool { hides(item: name.utf8, (value ?? "-").utf8) }

    /// The names of secret items, if the user has set them.
    package struct ItemNames: Sendable, Hashable {
        /// The names as specified by the program.
        package let names: Set<String>
        /// The names that are not in the standard set. They are compared as a whole, in normalized form.
        private let whole: Set<[UInt8]>
        /// The names that are in the standard set.
        fileprivate let words: Set<String>

        /// - Parameter names: Words from the standard set, which match any name that contains them, and whole names.
        ///   Whole names ignore case, `-` and `_`; in `user[password]`, each part is compared.
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
