import ConvoySupport
import Foundation

/// The address by which responses are found: a URL without fragment and user information, with the scheme and the host
/// in lower case, without the default port, and with a path (RFC 9110, section 4.2.3).
///
/// No more is made equal: escapes, dots and trailing slashes are the origin's business. Bytes that are not ASCII are
/// escaped, as they are in every valid URL, so that addresses are compared by bytes wherever they are compared as texts.
enum CacheAddress {
    static func normalized(_ address: String) -> String {
        var text = address
        if text.withUTF8(isPlain) { return text }
        let changed: String? = text.withUTF8 { bytes in
            guard let parts = Parts(bytes) else { return escaped(Array(bytes)) }
            return parts.isNormal ? nil : parts.text(bytes)
        }
        return changed ?? text
    }

    /// Whether an address is normal beyond doubt, as most are: found out in one pass.
    private static func isPlain(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = bytes.baseAddress, bytes.count > 8, memcmp(start, "http", 4) == 0 else { return false }
        var index = bytes[4] == UInt8(ascii: "s") ? 5 : 4
        let defaultPort = index == 5 ? 443 : 80
        guard memcmp(start + index, "://", 3) == 0 else { return false }
        index += 3
        var port: Int?
        authority: while index < bytes.count {
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "/"): break authority
            case UInt8(ascii: ":") where port == nil: port = 0
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if let digits = port {
                    guard digits < 100_000 else { return false }
                    port = digits * 10 + Int(byte - UInt8(ascii: "0"))
                }
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "."), UInt8(ascii: "-"):
                guard port == nil else { return false }
            default: return false
            }
            index += 1
        }
        guard index < bytes.count, port != defaultPort, port != 0 else { return false }
        while index < bytes.count {
            guard bytes[index] < 0x80, bytes[index] != UInt8(ascii: "#") else { return false }
            index += 1
        }
        return true
    }

    private static func escaped(_ bytes: [UInt8]) -> String {
        guard bytes.contains(where: { $0 >= 0x80 }) else { return String(decoding: bytes, as: UTF8.self) }
        var text: [UInt8] = []
        for byte in bytes {
            guard byte >= 0x80 else {
                text.append(byte)
                continue
            }
            text.append(UInt8(ascii: "%"))
            for digit in [byte >> 4, byte & 15] { text.append(ASCII.hexadecimalDigit(digit, uppercase: true)) }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The scheme, the host and the port of a normalised address.
    static func origin(_ address: String) -> Substring? {
        guard let authority = address.utf8.firstIndex(of: UInt8(ascii: ":")).map({ address.utf8[$0...].dropFirst(3) })
        else { return nil }
        let end = authority.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") }
        return address[..<(end ?? address.endIndex)]
    }

    /// Where things are in an address.
    private struct Parts {
        /// The end of the scheme.
        var colon: Int
        /// The host and the port, without user information and without a default port.
        var authority: Range<Int>
        /// The path and the query, which may be empty.
        var path: Range<Int>
        var isNormal: Bool

        init?(_ bytes: UnsafeBufferPointer<UInt8>) {
            guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon + 2 < bytes.count,
                bytes[colon + 1] == UInt8(ascii: "/"), bytes[colon + 2] == UInt8(ascii: "/")
            else { return nil }
            let end = bytes.firstIndex(of: UInt8(ascii: "#")) ?? bytes.count
            var (start, stop) = (colon + 3, colon + 3)
            var isNormal = end == bytes.count && !bytes[..<colon].contains(where: Parts.isUpper)
            var port: Int?
            while stop < end, !Parts.endsAuthority(bytes[stop]) {
                switch bytes[stop] {
                case UInt8(ascii: "@"): (start, port, isNormal) = (stop + 1, nil, false)
                case UInt8(ascii: ":"): port = stop
                case UInt8(ascii: "]"): port = nil
                case let byte where Parts.isUpper(byte): isNormal = false
                default: break
                }
                stop += 1
            }
            path = stop..<end
            authority = start..<stop
            if let port, port + 1 == stop || Parts.isDefault(bytes, port + 1..<stop, colon) {
                authority = start..<port
                isNormal = false
            }
            if stop == end || bytes[stop] != UInt8(ascii: "/") || bytes.contains(where: { $0 >= 0x80 }) { isNormal = false }
            self.colon = colon
            self.isNormal = isNormal
        }

        func text(_ bytes: UnsafeBufferPointer<UInt8>) -> String {
            var text: [UInt8] = bytes[..<colon].map(ASCII.lowercased)
            text += "://".utf8
            text += bytes[authority].map(ASCII.lowercased)
            if path.isEmpty || bytes[path.lowerBound] != UInt8(ascii: "/") { text.append(UInt8(ascii: "/")) }
            text += bytes[path]
            return CacheAddress.escaped(text)
        }

        private static func isUpper(_ byte: UInt8) -> Bool { ASCII.lowercased(byte) != byte }

        private static func endsAuthority(_ byte: UInt8) -> Bool {
            byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "\\")
        }

        private static func isDefault(
            _ bytes: UnsafeBufferPointer<UInt8>, _ port: Range<Int>, _ schemeEnd: Int
        ) -> Bool {
            let isSecure = schemeEnd == 5
            return bytes[port].elementsEqual(isSecure ? "443".utf8 : "80".utf8)
        }
    }
}
