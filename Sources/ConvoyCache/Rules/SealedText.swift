import ConvoySecurity
import ConvoySupport
import Foundation

/// Where the salt of a cache comes from. Asked only where something is sealed.
protocol SaltSource: AnyObject, Sendable {
    /// See ``ResponseCache/salt``.
    var salt: String { get }
}

/// Parts of requests that may be secrets, in a form in which they can be found again and not be read.
///
/// A cache compares the URLs and the fields of requests with those of the requests that it has stored responses of; it
/// never sends them.
enum SealedText {
    /// A salted digest.
    static func of(_ text: String, salt: String) -> String {
        let salted = Data("\(salt.utf8.count):\(salt)\(text)".utf8)
        // Without a digest nothing is found again, which is what a cache may always say.
        return MessageDigest.sha256(salted)?.hexadecimalString ?? UUID().uuidString
    }

    /// An address whose query, and whose parameters in the path, are sealed: any item may be a secret, whatever its name.
    static func address(_ address: String, salt: String) -> String {
        guard let end = address.utf8.firstIndex(where: { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: ";") }) else {
            return address
        }
        return "\(address[..<end])?\(of(address, salt: salt))"
    }

    /// The value of a field by which a response varies: sealed, unless the field is harmless at any origin.
    static func value(_ value: String, of name: String, salt: any SaltSource) -> String {
        SecretClassifier.isHarmless(name) ? value : of(value, salt: salt.salt)
    }
}
