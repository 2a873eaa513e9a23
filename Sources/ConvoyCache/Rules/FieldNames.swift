import ConvoySupport

/// Looks fields up by name.
enum FieldNames {
    /// Whether a name is this one, which is given in lower case.
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
    /// The value of the first field of a name, which is given in lower case.
    func first(_ lowercase: StaticString) -> String? {
        for field in self where FieldNames.matches(field.name, lowercase) { return field.value }
        return nil
    }

    /// The values of all fields of a name, in their order.
    func all(_ lowercase: StaticString) -> [String] {
        var values: [String] = []
        for field in self where FieldNames.matches(field.name, lowercase) { values.append(field.value) }
        return values
    }

    func contains(_ lowercase: StaticString) -> Bool { first(lowercase) != nil }

    /// The members of the lists in all fields of a name, without whitespace around them and without empty ones. For
    /// lists of tokens: quotes have no meaning.
    func members(_ lowercase: StaticString) -> [Substring] {
        all(lowercase).flatMap { value in
            // By bytes: a comma and a mark that combines with it are one character, and would not be a comma.
            value.utf8.split(separator: UInt8(ascii: ",")).map { HTTPSyntax.trimmed(Substring($0)) }.filter { !$0.isEmpty }
        }
    }
}
