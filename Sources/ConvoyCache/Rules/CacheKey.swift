import ConvoySecurity
import ConvoySupport
import Foundation

/// The normalized address of a stored response: a URL without fragment and user information, with the authority of its
/// target, without the default port, and with a path (RFC 9110, section 4.2.3).
///
/// Escapes, dot segments and trailing slashes are not normalized, because they may make a difference to the origin.
/// Bytes that are not ASCII are escaped, as in every valid URL, so that comparing addresses as strings compares their
/// bytes.
enum CacheAddress {
    static func normalized(_ address: String) -> String {
        var text = address
        if text.withUTF8(isPlain) { return text }
        guard let parsed = HTTPAddress(address) else { return escaped(address) }
        let rest = parsed.afterAuthority.utf8.prefix { $0 != UInt8(ascii: "#") }
        return escaped(parsed.target.description + (rest.isEmpty ? "/" : String(Substring(rest))))
    }

    /// Returns whether an address is already normalized, as most are. Takes a single pass.
    private static func isPlain(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let plain = SimpleURLAuthority(bytes), plain.end < bytes.count, !plain.namesPort || !plain.usesDefaultPort
        else {
            return false
        }
        var index = plain.end
        while index < bytes.count {
            guard bytes[index] < 0x80, bytes[index] != UInt8(ascii: "#") else { return false }
            index += 1
        }
        return true
    }

    private static func escaped(_ address: String) -> String {
        guard address.utf8.contains(where: { $0 >= 0x80 }) else { return address }
        var text: [UInt8] = []
        for byte in address.utf8 {
            guard byte >= 0x80 else {
                text.append(byte)
                continue
            }
            text.append(UInt8(ascii: "%"))
            for digit in [byte >> 4, byte & 15] { text.append(ASCII.hexadecimalDigit(digit, uppercase: true)) }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// The request fields that a response varies by (RFC 9111, section 4.1).
///
/// Values are compared in a normal form: fields of one name are joined, and whitespace around commas is removed. Case
/// is ignored where the field's values are case-insensitive. The order is kept, because some origins treat that of
/// `Accept-Language` as a preference.
struct VaryKey: Sendable, Equatable {
    /// The fields, sorted by lower-case name; the value is nil if the request does not have the field.
    private(set) var fields: [Field] = []

    struct Field: Sendable, Equatable {
        var name: String
        var value: String?

        static func == (one: Field, other: Field) -> Bool {
            ExactText.equal(one.name, other.name) && ExactText.equal(one.value, other.value)
        }
    }

    /// The maximum number of fields to vary by, because the network thread compares all of them for each request.
    static let nameLimit = 64

    init(fields: [Field]) { self.fields = fields }

    /// Creates a key with the request fields that the response's `Vary` names; nil for `*`, which matches no other
    /// request, and for an invalid `Vary`.
    ///
    /// - Parameter salt: The source of the salt for values that may be secret, which are stored as digests.
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

    /// Returns the names in `Vary`, and `accept-encoding` for an encoded response, which many origins forget to name.
    private static func names(_ response: Fields) -> [Substring] {
        let isEncoded = response.members("content-encoding").contains { !FieldNames.matches(String($0), "identity") }
        return response.members("vary") + (isEncoded ? ["accept-encoding"] : [])
    }

    /// - Parameter isLenient: Whether to compare only the fields that the request has.
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
            // Fast path: most values are a single token.
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
        // Commas in quoted strings also separate elements, but equal values still have equal forms.
        value.utf8.split(separator: UInt8(ascii: ",")).map { HTTPSyntax.trimmed(Substring($0)) }.filter { !$0.isEmpty }
            .joined(separator: ",")
    }
}

/// A source of the salt of a cache, which is used only when a digest is needed.
protocol SaltSource: AnyObject, Sendable {
    /// See ``ResponseCache/salt``.
    var salt: String { get }
}

/// Salted digests that replace parts of requests that may be secret. They can be compared but not read.
///
/// A cache only compares the stored URLs and request fields with those of new requests; it never sends them.
enum SealedText {
    /// Returns a salted digest.
    static func of(_ text: String, salt: String) -> String {
        let salted = Data("\(salt.utf8.count):\(salt)\(text)".utf8)
        // If no digest can be computed, nothing is found. A miss is always correct.
        return MessageDigest.sha256(salted)?.hexadecimalString ?? UUID().uuidString
    }

    /// Returns the address with a digest instead of its query and path parameters, any of which may be secret.
    static func address(_ address: String, salt: String) -> String {
        guard let end = address.utf8.firstIndex(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: ";") }) else {
            return address
        }
        return "\(address[..<end])?\(of(address, salt: salt))"
    }

    /// Returns the value of a field by which a response varies, as a digest unless the field is never secret.
    static func value(_ value: String, of name: String, salt: any SaltSource) -> String {
        SecretClassifier.isHarmless(name) ? value : of(value, salt: salt.salt)
    }
}
