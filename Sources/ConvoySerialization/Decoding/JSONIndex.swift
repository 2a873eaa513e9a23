import ConvoySupport
import Foundation

/// A value or a key in an indexed document.
struct JSONToken {
    enum Kind: UInt8 {
        case null, `true`, `false`, number, string, array, object
    }

    var kind: Kind
    /// Whether a string has no escapes, or a number has neither a fraction nor an exponent.
    var isSimple = false
    /// Whether all bytes of a string are ASCII.
    var isASCII = true
    /// The offset of the first byte of a number, or of a string after its opening quote. For a container that is still
    /// open, the index of the enclosing container's token.
    var start: UInt32 = 0
    /// The number of bytes in a number or string, of elements in an array, or of members in an object.
    var count: UInt32 = 0
    /// The index of the token after the value. For a key, which is always followed by its value, the
    /// ``JSONIndex/fingerprint(of:)``.
    var next: UInt32 = 0
}

/// The positions of all values in a JSON text, as a flat array of tokens in document order.
///
/// A container precedes its contents. In an object, keys and values alternate. The text of strings and numbers is not
/// copied until a value is requested. Only strictly valid text (RFC 8259, UTF-8) is indexed, so decoding requires no
/// further checks.
///
/// The index refers to the bytes it was created from. Call ``keepBytes()`` if the index may outlive them.
final class JSONIndex {
    private(set) var bytes: UnsafePointer<UInt8>
    private let length: Int
    private var ownsBytes = false
    private let tokens: JSONTokens
    /// The position of an additional null, not part of the text, that represents missing values.
    let null: Int
    let options: JSONDecodingOptions

    /// Creates an index of the text; nil if the text is not strict JSON, or is nested deeper than the limit.
    init?(_ text: UnsafeRawBufferPointer, maximumDepth: Int, options: JSONDecodingOptions) {
        // Offsets are 32-bit numbers, so longer text cannot be indexed.
        guard let start = text.baseAddress, text.count < 1 << 31 else { return nil }
        bytes = start.assumingMemoryBound(to: UInt8.self)
        length = text.count
        self.options = options
        var indexer = JSONIndexer(bytes, count: length, maximumDepth: maximumDepth)
        let isValid = indexer.index()
        null = indexer.tokens.count
        indexer.append(JSONToken(kind: .null))
        tokens = indexer.tokens
        guard isValid else { return nil }
    }

    deinit {
        tokens.start.deallocate()
        if ownsBytes { bytes.deallocate() }
    }

    /// Copies the bytes, so that the index can outlive the original ones.
    func keepBytes() {
        guard !ownsBytes else { return }
        let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: length)
        copy.initialize(from: bytes, count: length)
        bytes = UnsafePointer(copy)
        ownsBytes = true
    }

    @inline(__always) subscript(token: Int) -> JSONToken { tokens.start[token] }

    /// Returns the bytes of a number, or of a string between its quotes.
    @inline(__always) func text(of token: JSONToken) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: bytes + Int(token.start), count: Int(token.count))
    }

    /// Returns the length and three bytes of a key, combined into a number that distinguishes nearly all keys.
    @inline(__always) static func fingerprint(of text: UnsafeBufferPointer<UInt8>) -> UInt32 {
        guard let start = text.baseAddress, !text.isEmpty else { return 0 }
        let (first, middle, last) = (start[0], start[text.count / 2], start[text.count - 1])
        return UInt32(truncatingIfNeeded: text.count) << 24 | UInt32(first) << 16 | UInt32(middle) << 8 | UInt32(last)
    }
}

/// A growable array of tokens. Its owner must free it.
struct JSONTokens {
    private(set) var start: UnsafeMutablePointer<JSONToken>
    private var capacity: Int
    private(set) var count = 0

    init(capacity: Int) {
        self.capacity = capacity
        start = .allocate(capacity: capacity)
    }

    @inline(__always) mutating func append(_ token: JSONToken) {
        if count == capacity { grow() }
        (start + count).initialize(to: token)
        count += 1
    }

    @inline(never) private mutating func grow() {
        let larger = UnsafeMutablePointer<JSONToken>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: start, count: count)
        start.deallocate()
        start = larger
        capacity *= 2
    }
}

/// Strings and numbers in an indexed document.
extension JSONIndex {
    /// Returns the text of a string or key; nil for other tokens.
    func string(_ token: JSONToken) -> String? {
        guard token.kind == .string else { return nil }
        let text = text(of: token)
        return token.isSimple ? String(decoding: text, as: UTF8.self) : JSONIndex.unescaped(text)
    }

    /// Replaces the escapes in a string. The escapes have been validated, and none is shorter than the character it
    /// represents.
    private static func unescaped(_ text: UnsafeBufferPointer<UInt8>) -> String {
        String(unsafeUninitializedCapacity: text.count) { output in
            var count = 0
            var index = 0
            func unit() -> UInt16 {
                defer { index += 4 }
                return text[index..<index + 4].reduce(0) { $0 << 4 | UInt16(ASCII.hexadecimalValue($1) ?? 0) }
            }
            func append(_ byte: UInt8) {
                output[count] = byte
                count += 1
            }
            while index < text.count {
                let byte = text[index]
                index += 1
                guard byte == UInt8(ascii: "\\") else {
                    append(byte)
                    continue
                }
                let letter = text[index]
                index += 1
                switch letter {
                case UInt8(ascii: "b"): append(0x08)
                case UInt8(ascii: "f"): append(0x0C)
                case UInt8(ascii: "n"): append(0x0A)
                case UInt8(ascii: "r"): append(0x0D)
                case UInt8(ascii: "t"): append(0x09)
                case UInt8(ascii: "u"):
                    var value = UInt32(unit())
                    if 0xD800..<0xDC00 ~= value {
                        index += 2
                        value = 0x10000 + (value & 0x3FF) << 10 + UInt32(unit()) & 0x3FF
                    }
                    Unicode.Scalar(value).map { UTF8.encode($0)?.forEach(append) }
                default: append(letter)
                }
            }
            return count
        }
    }

    // MARK: Numbers

    /// Returns a number as an integer; nil if the token is not a number.
    ///
    /// - Throws: ``JSONNumberMismatch`` if the number is not an integer or exceeds the type's range.
    @inline(__always) func integer<Integer: FixedWidthInteger & Decodable>(
        _ token: JSONToken, as type: Integer.Type
    ) throws -> Integer? {
        guard token.kind == .number else { return nil }
        if token.isSimple, let value = wholeNumber(token), let integer = Integer(exactly: value.magnitude) {
            if !value.isNegative { return integer }
            if Integer.isSigned { return 0 - integer }
            if integer == 0 { return 0 }
        }
        return try unusualInteger(token, as: type)
    }

    /// Returns the magnitude of a number without a fraction or an exponent; nil if it may exceed 64 bits.
    @inline(__always) private func wholeNumber(_ token: JSONToken) -> (magnitude: UInt64, isNegative: Bool)? {
        let start = bytes + Int(token.start)
        let isNegative = start.pointee == UInt8(ascii: "-")
        let first = isNegative ? 1 : 0
        let count = Int(token.count)
        var magnitude: UInt64 = 0
        guard count - first <= 19 else { return nil }
        // 19 digits always fit into 64 bits.
        for offset in first..<count { magnitude = magnitude &* 10 &+ UInt64(start[offset] &- UInt8(ascii: "0")) }
        return (magnitude, isNegative)
    }

    /// Converts numbers that need special handling: `1.0`, `1e2`, the minimum of a type, and numbers that do not fit
    /// into any type.
    @inline(never) private func unusualInteger<Integer: FixedWidthInteger & Decodable>(
        _ token: JSONToken, as type: Integer.Type
    ) throws -> Integer {
        if let double = try? double(token), double.magnitude < 0x1p53 {
            guard let integer = Integer(exactly: double) else { throw JSONNumberMismatch() }
            return integer
        }
        return try asFoundation(token)
    }

    /// Returns a number as a `Double`; nil if the token is not a number.
    ///
    /// - Throws: ``JSONNumberMismatch`` if the number is too large, or so small that it would become zero.
    func double(_ token: JSONToken) throws -> Double? {
        guard token.kind == .number else { return nil }
        if let decimal = shortDecimal(token), decimal.significand < 1 << 53 {
            // Both operands are exact, so only the quotient or product is rounded.
            let value = Double(decimal.significand)
            let scaled =
                decimal.exponent < 0
                ? value / JSONIndex.powersOfTen[-decimal.exponent] : value * JSONIndex.powersOfTen[decimal.exponent]
            return decimal.isNegative ? -scaled : scaled
        }
        return try rounded(token, Double(String(decoding: text(of: token), as: UTF8.self)))
    }

    /// Returns a number as a `Float`, with the same rules as `double(_:)`.
    func float(_ token: JSONToken) throws -> Float? {
        guard token.kind == .number else { return nil }
        return try rounded(token, Float(String(decoding: text(of: token), as: UTF8.self)))
    }

    private func rounded<Value: BinaryFloatingPoint>(_ token: JSONToken, _ value: Value?) throws -> Value {
        guard let value, value.isFinite else { throw JSONNumberMismatch() }
        if value == 0 {
            let digits = text(of: token).prefix { $0 | 0x20 != UInt8(ascii: "e") }
            guard !digits.contains(where: { UInt8(ascii: "1")...UInt8(ascii: "9") ~= $0 }) else {
                throw JSONNumberMismatch()
            }
        }
        return value
    }

    /// Returns a number with at most 18 digits and a power of ten that a `Double` represents exactly; nil for other
    /// numbers.
    private func shortDecimal(_ token: JSONToken) -> (significand: UInt64, exponent: Int, isNegative: Bool)? {
        let text = text(of: token)
        var index = 0
        let isNegative = text[0] == UInt8(ascii: "-")
        if isNegative { index = 1 }
        var significand: UInt64 = 0
        var digits = 0
        var exponent = 0
        var isFraction = false
        while index < text.count {
            let byte = text[index]
            if byte == UInt8(ascii: ".") {
                isFraction = true
            } else if byte.isDigit {
                digits += 1
                guard digits <= 18 else { return nil }
                significand = significand * 10 + UInt64(byte - UInt8(ascii: "0"))
                if isFraction { exponent -= 1 }
            } else {
                break
            }
            index += 1
        }
        if index < text.count {
            index += 1
            let isDivisor = text[index] == UInt8(ascii: "-")
            if isDivisor || text[index] == UInt8(ascii: "+") { index += 1 }
            var power = 0
            for byte in text[index...] {
                power = power * 10 + Int(byte - UInt8(ascii: "0"))
                guard power < 1000 else { return nil }
            }
            exponent += isDivisor ? -power : power
        }
        guard -22...22 ~= exponent else { return nil }
        return (significand, exponent, isNegative)
    }

    private static let powersOfTen: [Double] = [
        1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
        1e21, 1e22,
    ]

    /// Returns a number as a `Decimal`; nil if the token is not a number.
    ///
    /// - Throws: ``JSONNumberMismatch`` if the number is too large.
    func decimal(_ token: JSONToken) throws -> Decimal? {
        guard token.kind == .number else { return nil }
        guard let value = Decimal(string: String(decoding: text(of: token), as: UTF8.self)) else {
            throw JSONNumberMismatch()
        }
        return value
    }

    /// Returns the number as decoded by Foundation, which has special rules in rare cases.
    private func asFoundation<Value: Decodable>(_ token: JSONToken) throws -> Value {
        guard let value = try? JSONDecoder().decode(Value.self, from: Data(text(of: token))) else {
            throw JSONNumberMismatch()
        }
        return value
    }
}

/// A number that the requested type cannot represent. Callers receive the same `DecodingError` as from Foundation.
struct JSONNumberMismatch: Error {}
