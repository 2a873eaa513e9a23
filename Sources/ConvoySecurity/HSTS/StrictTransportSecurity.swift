import ConvoySupport
import Foundation

/// The value of a `Strict-Transport-Security` field (RFC 6797, section 6.1).
struct StrictTransportSecurity: Equatable {
    /// Seconds; 0 takes back what was said before.
    var maximumAge: Int64
    var includesSubdomains: Bool

    /// More is not told apart: some three hundred years.
    private static let longest: Int64 = 10_000_000_000

    /// nil for what does not follow the grammar, or has no `max-age`, and is ignored as a whole: a directive that comes
    /// twice, a value that should not be there or is missing. Unknown directives are passed over.
    init?(_ value: String) {
        var names: Set<String> = []
        var age: Int64?
        includesSubdomains = false
        var rest = Array(value.utf8)[...]
        while true {
            guard let end = Self.endOfDirective(in: rest) else { return nil }
            let directive = ASCII.trimmed(rest[..<end])
            if !directive.isEmpty {
                guard let (name, value) = Self.parts(of: directive), names.insert(name).inserted else { return nil }
                switch name {
                case "max-age":
                    guard let value, let seconds = Self.seconds(value) else { return nil }
                    age = seconds
                case "includesubdomains":
                    guard value == nil else { return nil }
                    includesSubdomains = true
                default: break
                }
            }
            guard end < rest.endIndex else { break }
            rest = rest[(end + 1)...]
        }
        guard let age else { return nil }
        maximumAge = age
    }

    /// The next semicolon outside quotes, or the end; nil where quotes are not closed.
    private static func endOfDirective(in text: ArraySlice<UInt8>) -> Int? {
        var isQuoted = false
        var position = text.startIndex
        while position < text.endIndex {
            switch text[position] {
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: "\\") where isQuoted: position += 1
            case UInt8(ascii: ";") where !isQuoted: return position
            default: break
            }
            position += 1
        }
        return isQuoted || position > text.endIndex ? nil : text.endIndex
    }

    /// The name in lower case, and the value without quotes.
    private static func parts(of directive: ArraySlice<UInt8>) -> (name: String, value: [UInt8]?)? {
        let equals = directive.firstIndex(of: UInt8(ascii: "=")) ?? directive.endIndex
        let name = ASCII.text(ASCII.trimmed(directive[..<equals])[...]).lowercased()
        guard HTTPSyntax.isToken(name) else { return nil }
        guard equals < directive.endIndex else { return (name, nil) }
        let value = ASCII.trimmed(directive[(equals + 1)...])
        guard value.first == UInt8(ascii: "\"") else {
            return HTTPSyntax.isToken(ASCII.text(value[...])) ? (name, Array(value)) : nil
        }
        guard let content = unquoted(value) else { return nil }
        return (name, content)
    }

    /// The text of a quoted string (RFC 9110, section 5.6.4); nil if it goes on after the quotes.
    private static func unquoted(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var content: [UInt8] = []
        var position = text.startIndex + 1
        while position < text.endIndex {
            switch text[position] {
            case UInt8(ascii: "\""): return position == text.endIndex - 1 ? content : nil
            case UInt8(ascii: "\\"):
                position += 1
                guard position < text.endIndex else { return nil }
                content.append(text[position])
            default: content.append(text[position])
            }
            position += 1
        }
        return nil
    }

    /// A number in digits, however many. A long one counts as the longest time.
    private static func seconds(_ digits: [UInt8]) -> Int64? {
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        var value: Int64 = 0
        for digit in digits { value = min(longest, value * 10 + Int64(digit - UInt8(ascii: "0"))) }
        return value
    }
}
