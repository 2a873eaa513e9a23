import ConvoySupport
import Foundation

/// The address by which responses are found: a URL without fragment and user information, with the authority of its
/// target, without the default port, and with a path (RFC 9110, section 4.2.3).
///
/// No more is made equal: escapes, dots and trailing slashes are the origin's business. Bytes that are not ASCII are
/// escaped, as they are in every valid URL, so that addresses are compared by bytes wherever they are compared as texts.
enum CacheAddress {
    static func normalized(_ address: String) -> String {
        var text = address
        if text.withUTF8(isPlain) { return text }
        guard let parsed = HTTPAddress(address) else { return escaped(address) }
        let rest = parsed.afterAuthority.utf8.prefix { $0 != UInt8(ascii: "#") }
        return escaped(parsed.target.description + (rest.isEmpty ? "/" : String(Substring(rest))))
    }

    /// Whether an address is normal beyond doubt, as most are: found out in one pass.
    private static func isPlain(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let plain = PlainAuthority(bytes), plain.end < bytes.count, !plain.namesPort || !plain.usesDefaultPort else {
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
