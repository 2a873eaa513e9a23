import ConvoySupport
import Foundation

/// The value of a `Strict-Transport-Security` field (RFC 6797, section 6.1).
struct StrictTransportSecurity: Equatable {
    /// In seconds; 0 withdraws the policy.
    var maximumAge: Int64
    var includesSubdomains: Bool

    /// Larger values are clamped to this, some three hundred years.
    private static let longest: Int64 = 10_000_000_000

    /// nil for a value that breaks the grammar or has no `max-age`, which is ignored as a whole: a repeated directive,
    /// a superfluous or a missing value. Unknown directives are skipped.
    init?(_ value: String) {
        var names: Set<String> = []
        var age: Int64?
        includesSubdomains = false
        var rest = Array(value.utf8)[...]
        while true {
            guard let end = HTTPSyntax.firstSeparator(";", in: rest) else { return nil }
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

    /// The name in lower case, and the value without quotes.
    private static func parts(of directive: ArraySlice<UInt8>) -> (name: String, value: [UInt8]?)? {
        let equals = directive.firstIndex(of: UInt8(ascii: "=")) ?? directive.endIndex
        let name = ASCII.text(ASCII.trimmed(directive[..<equals])[...]).lowercased()
        guard HTTPSyntax.isToken(name) else { return nil }
        guard equals < directive.endIndex else { return (name, nil) }
        var value = ASCII.trimmed(directive[(equals + 1)...])
        guard value.first == UInt8(ascii: "\"") else {
            return HTTPSyntax.isToken(ASCII.text(value[...])) ? (name, Array(value)) : nil
        }
        let content = HTTPSyntax.quotedString(&value)
        return content.isClosed && value.isEmpty ? (name, content.text) : nil
    }

    /// A number of any length. A long one counts as the longest time.
    private static func seconds(_ digits: [UInt8]) -> Int64? {
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        var value: Int64 = 0
        for digit in digits { value = min(longest, value * 10 + Int64(digit - UInt8(ascii: "0"))) }
        return value
    }
}
