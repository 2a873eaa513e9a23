import ConvoySupport
import Foundation

/// Case-insensitive comparison of field names.
enum FieldNames {
    /// Returns whether a name equals a lower-case one, ignoring case.
    @inline(__always)
    static func matches(_ name: String, _ lowercase: StaticString) -> Bool {
        guard name.utf8.count == lowercase.utf8CodeUnitCount else { return false }
        var expected = lowercase.utf8Start
        for byte in name.utf8 {
            guard ASCII.lowercased(byte) == expected.pointee else { return false }
            expected += 1
        }
        return true
    }

    static func lowercased(_ name: some StringProtocol) -> String {
        String(decoding: name.utf8.map(ASCII.lowercased), as: UTF8.self)
    }
}

typealias Fields = [(name: String, value: String)]

extension Fields {
    /// Returns the value of the first field with this lower-case name.
    func first(_ lowercase: StaticString) -> String? {
        for field in self where FieldNames.matches(field.name, lowercase) { return field.value }
        return nil
    }

    /// Returns the values of all fields with this lower-case name, in order.
    func all(_ lowercase: StaticString) -> [String] {
        var values: [String] = []
        for field in self where FieldNames.matches(field.name, lowercase) { values.append(field.value) }
        return values
    }

    func contains(_ lowercase: StaticString) -> Bool { first(lowercase) != nil }

    /// Returns the members of the comma-separated lists in all fields of a name, trimmed and without empty ones. For
    /// lists of tokens: quotes have no meaning.
    func members(_ lowercase: StaticString) -> [Substring] {
        all(lowercase).flatMap { value in
            // Split by bytes, because a comma with a combining mark is one `Character` that does not equal a comma.
            value.utf8.split(separator: UInt8(ascii: ",")).map { HTTPSyntax.trimmed(Substring($0)) }.filter { !$0.isEmpty }
        }
    }
}

/// Comparison of strings by their bytes.
///
/// `==` compares by canonical equivalence: an accented letter equals its decomposed form. To a server the two are
/// different addresses, entity tags and values.
enum ExactText {
    static func equal(_ one: some StringProtocol, _ other: some StringProtocol) -> Bool {
        let (one, other) = (one.utf8, other.utf8)
        guard one.count == other.count else { return false }
        let isEqual = one.withContiguousStorageIfAvailable { one in
            other.withContiguousStorageIfAvailable { other in
                guard let left = one.baseAddress, let right = other.baseAddress else { return true }
                return memcmp(left, right, one.count) == 0
            }
        }
        if case .some(.some(let isEqual)) = isEqual { return isEqual }
        return one.elementsEqual(other)
    }

    static func equal(_ one: String?, _ other: String?) -> Bool {
        switch (one, other) {
        case (nil, nil): true
        case (let one?, let other?): equal(one, other)
        default: false
        }
    }
}

/// Comparison of entity tags (RFC 9110, section 8.8.3).
enum EntityTag {
    /// Returns whether two tags match by the weak comparison.
    static func matchesWeakly(_ one: String, _ other: String) -> Bool {
        ExactText.equal(opaque(one), opaque(other))
    }

    /// Returns whether two tags match by the strong comparison.
    static func matchesStrongly(_ one: String, _ other: String) -> Bool {
        isStrong(one) && ExactText.equal(one, other)
    }

    static func isStrong(_ tag: String) -> Bool { !tag.utf8.starts(with: "W/".utf8) }

    /// Returns whether the list of an `If-None-Match` contains a tag, by the weak comparison.
    static func list(_ list: String, contains tag: String) -> Bool {
        if HTTPSyntax.trimmed(Substring(list)) == "*" { return true }
        // Split at quotes, because tags may contain commas.
        var rest = Substring(list)
        while let quote = rest.utf8.firstIndex(of: UInt8(ascii: "\"")) {
            let after = rest.utf8.index(after: quote)
            guard let end = rest.utf8[after...].firstIndex(of: UInt8(ascii: "\"")) else { break }
            if ExactText.equal(rest[quote...end], opaque(tag)) { return true }
            rest = rest[rest.utf8.index(after: end)...]
        }
        // Some origins send tags without quotes, which can only be compared as a whole.
        return ExactText.equal(list, tag)
    }

    private static func opaque(_ tag: String) -> Substring {
        isStrong(tag) ? Substring(tag) : Substring(tag.utf8.dropFirst(2))
    }
}
