import Foundation

/// Scans JSON before it is parsed for what Foundation's parsers accept: a comma before a closing bracket, and nesting
/// beyond the limit. It takes a small part of the parser's time.
enum JSONScanner {
    enum Finding: Hashable {
        case fine
        case tooDeep
        case trailingComma(offset: Int)
    }

    static func scan(_ data: Data, maximumDepth: Int) -> Finding {
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
            return .fine
        }
    }
}
