import ConvoySecurity
import ConvoySupport
import Foundation

/// Where a resource is: its URL, without what only says who may fetch it, and until when.
///
/// Validators mean nothing at another URL. But what stands behind a redirect to a store in a cloud has a new signature in
/// its URL each time, and is the same all the same.
package struct ResourcePlace: Sendable, Equatable {
    private enum Form {
        case text(String)
        /// As journals have it: a query may be a secret.
        case digest(String)
    }

    private let form: Form

    /// The place of a URL.
    package init(_ url: URL) { form = .text(Self.text(of: url)) }

    /// A place whose digest is known.
    package init(digest: String) { form = .digest(digest) }

    /// The SHA-256 digest of the place as hexadecimal digits.
    package var digest: String {
        switch form {
        case .digest(let digest): return digest
        case .text(let text):
            let digest = MessageDigest()
            digest.update(Data(text.utf8))
            return digest.value()?.hexadecimalString ?? ""
        }
    }

    package static func == (one: Self, other: Self) -> Bool {
        if case .text(let one) = one.form, case .text(let other) = other.form { return one.utf8.elementsEqual(other.utf8) }
        return one.digest.utf8.elementsEqual(other.digest.utf8)
    }

    /// A URL without its fragment and the query items of a signature.
    package static func text(of url: URL) -> String {
        let whole = (HTTPAddress(url.absoluteString)?.text ?? url.absoluteString).utf8.prefix { $0 != UInt8(ascii: "#") }
        guard let mark = whole.firstIndex(of: UInt8(ascii: "?")) else { return String(decoding: whole, as: UTF8.self) }
        let items = whole[whole.index(after: mark)...].split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        let kept = items.filter { !isOfSignature($0.prefix { $0 != UInt8(ascii: "=") }) }
        return String(decoding: whole[...mark], as: UTF8.self)
            + kept.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "&")
    }

    private static func isOfSignature(_ name: some Sequence<UInt8>) -> Bool {
        let name = name.map(ASCII.lowercased)
        return prefixes.contains { name.starts(with: $0.utf8) } || names.contains { name.elementsEqual($0.utf8) }
    }

    private static let prefixes = ["x-amz-", "x-goog-"]
    /// Of CloudFront, of S3 (version 2), of Azure, and of GitHub's releases.
    private static let names = [
        "awsaccesskeyid", "expires", "jwt", "key-pair-id", "policy", "se", "sig", "signature", "ske", "skoid", "sks", "skt",
        "sktid", "skv", "sp", "spr", "sr", "st", "sv",
    ]
}
