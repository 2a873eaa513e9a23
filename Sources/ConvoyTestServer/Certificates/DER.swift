import Foundation

/// Encodes the parts of a certificate in ASN.1's distinguished encoding rules (X.690).
///
/// Certificates are put together from bytes and not by OpenSSL's functions, as those refuse some of the defects that a
/// test needs.
enum DER {
    /// An element with a tag and the bytes in it.
    static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        if content.count < 0x80 { return [tag, UInt8(content.count)] + content }
        let length = bigEndian(content.count)
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }

    static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    static func sequence(of parts: [[UInt8]]) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    static func set(_ part: [UInt8]) -> [UInt8] { element(0x31, part) }

    /// A part with the tag of its context, in place of its own if `isConstructed` is false.
    static func tagged(_ number: UInt8, isConstructed: Bool = true, _ content: [UInt8]) -> [UInt8] {
        element((isConstructed ? 0xA0 : 0x80) | number, content)
    }

    static func integer(_ value: Int) -> [UInt8] { integer(bigEndian(max(0, value))) }

    /// A number that is not negative, from the bytes of its magnitude.
    static func integer(_ magnitude: [UInt8]) -> [UInt8] {
        var bytes = Array(magnitude.drop { $0 == 0 })
        if (bytes.first ?? 0x80) >= 0x80 { bytes.insert(0, at: 0) }
        return element(0x02, bytes)
    }

    static let isTrue: [UInt8] = [0x01, 0x01, 0xFF]
    static let null: [UInt8] = [0x05, 0x00]

    static func octetString(_ bytes: [UInt8]) -> [UInt8] { element(0x04, bytes) }

    static func utf8String(_ text: String) -> [UInt8] { element(0x0C, Array(text.utf8)) }

    static func bitString(_ bytes: [UInt8]) -> [UInt8] { element(0x03, [0] + bytes) }

    /// A list of named bits, of which bit 0 is the first, without the zeros at its end.
    static func bitString(flags: UInt16) -> [UInt8] {
        guard flags != 0 else { return element(0x03, [0]) }
        let count = UInt16.bitWidth - flags.leadingZeroBitCount
        var bytes = [UInt8](repeating: 0, count: (count + 7) / 8)
        for bit in 0..<count where flags & (1 << UInt16(bit)) != 0 { bytes[bit / 8] |= 0x80 >> UInt8(bit % 8) }
        return element(0x03, [UInt8(bytes.count * 8 - count)] + bytes)
    }

    /// An object identifier in dotted digits; nil if it is not one.
    static func objectIdentifier(_ text: String) -> [UInt8]? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt32($0) }
        guard parts.count >= 2, let first = parts[0], let second = parts[1], first <= 2,
            second < (first == 2 ? 1 << 24 : 40)
        else { return nil }
        var content = base128(first * 40 + second)
        for part in parts.dropFirst(2) {
            guard let part else { return nil }
            content += base128(part)
        }
        return element(0x06, content)
    }

    /// A time in whole seconds, in the two forms that RFC 5280 section 4.1.2.5 demands: with two digits of the year
    /// until 2049.
    static func time(_ date: Date) -> [UInt8] {
        let text = digits(date)
        guard let year = Int(text.prefix(4)), (1950..<2050).contains(year) else { return generalizedTime(date) }
        return element(0x17, Array(text.dropFirst(2).utf8))
    }

    /// A time in whole seconds with four digits of the year.
    static func generalizedTime(_ date: Date) -> [UInt8] { element(0x18, Array(digits(date).utf8)) }

    /// The bytes of the key in a SubjectPublicKeyInfo, which its identifier is computed from; nil if it is not one.
    static func keyBytes(inPublicKeyInfo info: [UInt8]) -> [UInt8]? {
        guard let outer = content(of: 0x30, in: info[...]), let algorithm = content(of: 0x30, in: outer),
            let bits = content(of: 0x03, in: outer[algorithm.endIndex...])
        else { return nil }
        return Array(bits.dropFirst())
    }

    private static func content(of tag: UInt8, in bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard bytes.count >= 2, bytes.first == tag else { return nil }
        var start = bytes.startIndex + 2
        var count = Int(bytes[start - 1])
        if count >= 0x80 {
            let size = count & 0x7F
            guard size <= 4, bytes.endIndex - start >= size else { return nil }
            count = bytes[start..<(start + size)].reduce(0) { $0 << 8 | Int($1) }
            start += size
        }
        guard count <= bytes.endIndex - start else { return nil }
        return bytes[start..<(start + count)]
    }

    /// Year to second and "Z". Times before the year 0 or after 9999 have no form and become the nearest that have one.
    private static func digits(_ date: Date) -> String {
        var time = time_t(min(max(date.timeIntervalSince1970.rounded(.down), -62_167_219_200), 253_402_300_799))
        var fields = tm()
        gmtime_r(&time, &fields)
        let parts = [fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min, fields.tm_sec]
        let year = String(fields.tm_year + 1900)
        return String(repeating: "0", count: max(0, 4 - year.count)) + year
            + parts.map { $0 < 10 ? "0\($0)" : "\($0)" }.joined() + "Z"
    }

    private static func bigEndian(_ value: Int) -> [UInt8] {
        let bytes = withUnsafeBytes(of: value.bigEndian) { Array($0.drop { $0 == 0 }) }
        return bytes.isEmpty ? [0] : bytes
    }

    private static func base128(_ value: UInt32) -> [UInt8] {
        var bytes = [UInt8(value & 0x7F)]
        var rest = value >> 7
        while rest > 0 {
            bytes.insert(UInt8(rest & 0x7F) | 0x80, at: 0)
            rest >>= 7
        }
        return bytes
    }
}
