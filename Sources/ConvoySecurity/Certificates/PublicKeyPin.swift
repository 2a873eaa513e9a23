import Foundation

/// The SHA-256 of a public key and its algorithm (the `SubjectPublicKeyInfo`), as RFC 7469 computes it. It is written
/// as "sha256/" and base64, as by OkHttp.
///
///     openssl x509 -in server.pem -pubkey -noout | openssl pkey -pubin -outform der |
///         openssl dgst -sha256 -binary | base64
///
/// It is coded as its text.
public struct PublicKeyPin: Sendable, Hashable, CustomStringConvertible {
    /// The 32 bytes of the hash.
    public let digest: Data

    /// A pin from its text: "sha256/" and base64. curl's form, with two slashes, is accepted as well.
    ///
    /// - Throws: `PublicKeyPinError`.
    public init(_ text: String) throws(PublicKeyPinError) {
        guard text.hasPrefix("sha256/") else { throw PublicKeyPinError(text: text) }
        var encoded = text.dropFirst(7)
        // The base64 may itself begin with a slash, so that the length decides.
        if encoded.utf8.count == Self.encodedCount + 1, encoded.hasPrefix("/") { encoded = encoded.dropFirst() }
        guard encoded.utf8.count == Self.encodedCount, let digest = Data(base64Encoded: String(encoded)),
            digest.count == 32
        else { throw PublicKeyPinError(text: text) }
        self.digest = digest
    }

    /// How many characters the base64 of 32 bytes has.
    private static let encodedCount = 44

    /// The pin of a key in DER; nil if OpenSSL cannot compute SHA-256.
    init?(ofKey der: UnsafeRawBufferPointer) {
        let digest = MessageDigest()
        digest.update(der)
        guard let value = digest.value() else { return nil }
        self.digest = value
    }

    public var description: String { "sha256/\(digest.base64EncodedString())" }
}

/// A text that is not a pin.
public struct PublicKeyPinError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The text.
    public let text: String

    public var description: String {
        "\(text.debugDescription) is not a pin: it has to be \"sha256/\" and the base64 of 32 bytes."
    }
}

extension PublicKeyPinError: LocalizedError {
    /// The same as `description`.
    public var errorDescription: String? { description }
}

extension PublicKeyPin: Codable {
    /// Decodes a pin from its text.
    ///
    /// - Throws: `DecodingError.dataCorrupted` for a text that is not a pin.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(container.decode(String.self))
        } catch let error as PublicKeyPinError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes the text.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
