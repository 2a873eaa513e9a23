import ConvoySupport
import Foundation

/// The `Retry-After` header field: seconds, or a date (RFC 9110, section 10.2.3).
package enum RetryAfter {
    /// Returns the number of seconds from now; nil if the value is invalid. A number that is too large is clamped.
    package static func seconds(_ text: String) -> TimeInterval? {
        let text = text.trimmingCharacters(in: .whitespaces)
        if !text.isEmpty, text.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) {
            return TimeInterval(Int64(text) ?? .max)
        }
        guard let date = HTTPDate.parse(text) else { return nil }
        return max(0, TimeInterval(date) - Date().timeIntervalSince1970)
    }
}
