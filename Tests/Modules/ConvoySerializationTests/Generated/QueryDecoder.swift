import Foundation

@testable import ConvoySerialization

/// Decodes a query string, independently of the code that encoded it.
struct QueryDecoder {
    enum Step: Hashable {
        case key(String)
        case index(Int)
        case element
    }

    struct Field {
        var path: [Step]
        /// The value; nil without a `=`.
        var value: String?
    }

    let nesting: QueryStringStyle.Nesting

    /// Returns the fields; nil if the query is invalid.
    func fields(_ query: String) -> [Field]? {
        if query.isEmpty { return [] }
        var fields: [Field] = []
        for piece in query.utf8.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false) {
            let halves = piece.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = QueryDecoder.unescape(halves[0]), let path = path(name) else { return nil }
            var field = Field(path: path, value: nil)
            if halves.count == 2 {
                guard let value = QueryDecoder.unescape(halves[1]) else { return nil }
                field.value = value
            }
            fields.append(field)
        }
        return fields
    }

    private func path(_ name: String) -> [Step]? {
        var steps: [Step] = []
        var current = String.UnicodeScalarView()
        var isFirst = true
        var inBrackets = false
        func isJoint(_ scalar: Unicode.Scalar) -> Bool { scalar == "[" || (nesting == .dots && scalar == ".") }
        func finish() {
            let text = String(current)
            if inBrackets {
                steps.append(text.isEmpty ? .element : Int(text).map(Step.index) ?? .key(text))
            } else if isFirst || !current.isEmpty {
                steps.append(.key(text))
            }
            isFirst = false
            current = .init()
        }
        for scalar in name.unicodeScalars {
            if inBrackets {
                if scalar == "]" {
                    finish()
                    inBrackets = false
                } else {
                    current.append(scalar)
                }
            } else if isJoint(scalar) {
                finish()
                inBrackets = scalar == "["
            } else {
                current.append(scalar)
            }
        }
        if inBrackets { return nil }
        finish()
        return steps
    }

    /// Returns the unescaped text; nil if a byte should have been escaped or an escape is invalid.
    static func unescape(_ text: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = hexadecimal(rest.popFirst()), let low = hexadecimal(rest.popFirst()) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: "/"), UInt8(ascii: "?"):
                bytes.append(byte)
            default: return nil
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexadecimal(_ byte: UInt8?) -> UInt8? {
        switch byte {
        case .some(UInt8(ascii: "0")...UInt8(ascii: "9")): byte.map { $0 - UInt8(ascii: "0") }
        case .some(UInt8(ascii: "A")...UInt8(ascii: "F")): byte.map { $0 - UInt8(ascii: "A") + 10 }
        default: nil
        }
    }
}
