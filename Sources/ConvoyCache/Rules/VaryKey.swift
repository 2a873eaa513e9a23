import ConvoySupport

/// The fields of a request that its response depends on (RFC 9111, section 4.1).
///
/// A value is compared after its list has been brought into one form: fields of one name are joined, and whitespace
/// around commas is removed. Where a field's values are case-insensitive, letters are compared as such. The order is
/// kept: in `Accept-Language` some origins take it for a preference.
struct VaryKey: Sendable, Equatable {
    /// In the order of names, which are in lower case; no value for a field that the request does not have.
    private(set) var fields: [Field] = []

    struct Field: Sendable, Equatable {
        var name: String
        var value: String?

        static func == (one: Field, other: Field) -> Bool {
            ExactText.equal(one.name, other.name) && ExactText.equal(one.value, other.value)
        }
    }

    /// A response that varies by more fields is not stored: each request for its address would have to be compared in
    /// all of them, on the network thread.
    static let nameLimit = 64

    init(fields: [Field]) { self.fields = fields }

    /// What a response says with `Vary`, taken from its request; nil for `*`, which no other request matches, and
    /// for what names no fields.
    ///
    /// - Parameter salt: for the values that may be secrets: they are kept in a form in which they cannot be read.
    init?(response: Fields, request: Fields, salt: any SaltSource) {
        let names = VaryKey.names(response)
        guard !names.isEmpty else { return }
        guard names.count <= Self.nameLimit, names.allSatisfy({ HTTPSyntax.isToken($0.utf8) && $0 != "*" }) else {
            return nil
        }
        fields = Set(names.map { FieldNames.lowercased($0) }).sorted().map { name in
            Field(name: name, value: VaryKey.value(name, request).map { SealedText.value($0, of: name, salt: salt) })
        }
    }

    /// The names in `Vary`. What is encoded depends on what codings the client takes, also where the origin forgets to say
    /// so, as many do: a part of it would be taken for one of the body.
    private static func names(_ response: Fields) -> [Substring] {
        let isEncoded = response.members("content-encoding").contains { !FieldNames.matches(String($0), "identity") }
        return response.members("vary") + (isEncoded ? ["accept-encoding"] : [])
    }

    /// - Parameter isLenient: whether only the fields count that the request has.
    func matches(_ request: Fields, isLenient: Bool = false, salt: any SaltSource) -> Bool {
        fields.allSatisfy { field in
            let value = VaryKey.value(field.name, request).map { SealedText.value($0, of: field.name, salt: salt) }
            return ExactText.equal(value, field.value) || (isLenient && value == nil)
        }
    }

    private static let caseInsensitive: Set<String> = ["accept-language", "accept-encoding", "accept-charset"]

    private static func value(_ name: String, _ request: Fields) -> String? {
        var value: String?
        for field in request where HTTPSyntax.isSameField(field.name, name) {
            // One token, which nearly all are, is taken as it is.
            let text = field.value
            let normal =
                text.utf8.contains { $0 == UInt8(ascii: ",") || HTTPSyntax.isOptionalWhitespace($0) }
                ? normalized(text) : text
            value = value.map { normal.isEmpty ? $0 : $0.isEmpty ? normal : "\($0),\(normal)" } ?? normal
        }
        guard caseInsensitive.contains(name) else { return value }
        return value.map { FieldNames.lowercased($0) }
    }

    private static func normalized(_ value: String) -> String {
        // Commas in quoted strings are no separators, but the form is the same for the same text, which is enough.
        value.utf8.split(separator: UInt8(ascii: ",")).map { HTTPSyntax.trimmed(Substring($0)) }.filter { !$0.isEmpty }
            .joined(separator: ",")
    }
}
