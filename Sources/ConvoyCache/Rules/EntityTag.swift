import ConvoySupport

/// Compares entity tags (RFC 9110, section 8.8.3).
enum EntityTag {
    /// The weak comparison.
    static func matchesWeakly(_ one: String, _ other: String) -> Bool {
        ExactText.equal(opaque(one), opaque(other))
    }

    /// The strong comparison: both are strong, and the same.
    static func matchesStrongly(_ one: String, _ other: String) -> Bool {
        isStrong(one) && ExactText.equal(one, other)
    }

    static func isStrong(_ tag: String) -> Bool { !tag.utf8.starts(with: "W/".utf8) }

    /// Whether an `If-None-Match` names a tag, by the weak comparison.
    static func list(_ list: String, contains tag: String) -> Bool {
        if HTTPSyntax.trimmed(Substring(list)) == "*" { return true }
        // Tags may contain commas: they are cut at the quotes.
        var rest = Substring(list)
        while let quote = rest.utf8.firstIndex(of: UInt8(ascii: "\"")) {
            let after = rest.utf8.index(after: quote)
            guard let end = rest.utf8[after...].firstIndex(of: UInt8(ascii: "\"")) else { break }
            if ExactText.equal(rest[quote...end], opaque(tag)) { return true }
            rest = rest[rest.utf8.index(after: end)...]
        }
        // What has no quotes is no tag, but some origins send such; as a whole it can be compared.
        return ExactText.equal(list, tag)
    }

    private static func opaque(_ tag: String) -> Substring {
        isStrong(tag) ? Substring(tag) : Substring(tag.utf8.dropFirst(2))
    }
}
