import Foundation

/// A scanner that detects problems that Foundation's parsers accept, before parsing: a comma before a closing bracket,
/// and nesting beyond the limit. The scan takes a small fraction of the parsing time.
enum JSONScanner {
    enum Outcome: Hashable {
        case valid
        case tooDeep
        case trailingComma(offset: Int)
    }

    static func scan(_ data: Data, maximumDepth: Int) -> Outcome {
        data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            var depth = 0
            var afterComma = false
            var index = 0
            let count = bytes.count
            while index < count {
                switch bytes[index] {
                case UInt8(ascii: "\""):
                    afterComma = false
                    index += 1
                    while index < count, bytes[index] != UInt8(ascii: "\"") {
                        index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                    }
                case UInt8(ascii: "["), UInt8(ascii: "{"):
                    afterComma = false
                    depth += 1
                    if depth > maximumDepth { return .tooDeep }
                case UInt8(ascii: "]"), UInt8(ascii: "}"):
                    if afterComma { return .trailingComma(offset: index) }
                    depth -= 1
                case UInt8(ascii: ","): afterComma = true
                case 0x20, 0x09, 0x0A, 0x0D: break
                default: afterComma = false
                }
                index += 1
            }
            return .valid
        }
    }

    /// Returns the number of members of all objects in a valid JSON text, which is the number of colons outside
    /// strings.
    static func memberCount(of data: Data) -> Int {
        data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            var (count, index) = (0, 0)
            while index < bytes.count {
                if bytes[index] == UInt8(ascii: ":") { count += 1 }
                if bytes[index] == UInt8(ascii: "\"") {
                    index += 1
                    while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
                        index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                    }
                }
                index += 1
            }
            return count
        }
    }
}
