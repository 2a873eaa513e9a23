import Foundation

/// The textual encoding of keys and certificates (RFC 7468).
enum PEM {
    /// What is between two lines of dashes.
    struct Block {
        let label: String
        /// The text between the lines; the fields of an encrypted key of old included.
        let text: Substring

        var isCertificate: Bool {
            label == "CERTIFICATE" || label == "X509 CERTIFICATE" || label == "TRUSTED CERTIFICATE"
        }

        /// Whether the certificate is followed by OpenSSL's notes about what it is trusted for.
        var hasNotes: Bool { label == "TRUSTED CERTIFICATE" }

        /// The bytes; nil if the text is not base64.
        var derData: Data? {
            // Foundation leaves out all that is no base64, and what follows the padding. So would be lost what follows a
            // block whose last line is missing.
            let rest = text.utf8.drop { $0 != UInt8(ascii: "=") }
            let isWhole = rest.allSatisfy { $0 == UInt8(ascii: "=") || $0 <= UInt8(ascii: " ") }
            guard isWhole, !text.utf8.contains(UInt8(ascii: "-")) else { return nil }
            return Data(base64Encoded: String(text), options: .ignoreUnknownCharacters)
        }
    }

    /// The first byte of anything in DER that is kept in files.
    static let sequenceTag: UInt8 = 0x30

    /// The blocks of a text. One that has no end is damaged, and comes with what is there.
    static func blocks(in data: Data) -> [Block] {
        guard data.range(of: Data("-----BEGIN ".utf8)) != nil else { return [] }
        let text = String(decoding: data, as: UTF8.self)
        var blocks: [Block] = []
        var rest = text[...]
        while let begin = rest.range(of: "-----BEGIN ") {
            rest = rest[begin.upperBound...]
            guard let dashes = rest.range(of: "-----") else { break }
            let label = String(rest[..<dashes.lowerBound])
            rest = rest[dashes.upperBound...]
            let end = rest.range(of: "-----END \(label)-----")
            blocks.append(Block(label: label, text: end.map { rest[..<$0.lowerBound] } ?? ""))
            if let end { rest = rest[end.upperBound...] }
        }
        return blocks
    }
}
