import ConvoyTransport
import Foundation
import FoundationNetworking

/// How a body that has come in part is asked for again, and what the answer means (RFC 9110, sections 13.1.5, 14).
///
/// A value without I/O. The one aim: bytes of two different representations are never put together.
package struct Resumption: Sendable, Equatable {
    /// What names the representation exactly: a strong entity tag, or a date that is certain enough.
    package let validator: String
    /// How many bytes are there.
    package let offset: Int64
    /// How many there are in all, if the first response said.
    package let total: Int64?

    /// What the head of the answer means for the bytes that are there.
    package enum Verdict: Equatable, Sendable {
        /// The rest comes: append.
        case append
        /// The whole comes, from its first byte: forget what is there.
        case startOver
        /// Nothing is missing.
        case alreadyComplete
        /// The answer cannot be used: ask again for the whole, without a range.
        case askForWhole
        /// The answer is about something else, an error of the server's: it is the response, what is there stays.
        case unrelated
    }

    /// How to go on after a try that brought `offset` bytes of what `head` announced; nil when only a new start
    /// from the first byte is safe.
    package init?(after head: ResponseHead?, of request: URLRequest, offset: Int64) {
        guard let head, offset > 0, head.statusCode == 200, !head.isEncoded,
            (request.httpMethod ?? "GET") == "GET", request.httpBody == nil, request.httpBodyStream == nil,
            request.value(forHTTPHeaderField: "Range") == nil,
            let validator = Self.validator(of: head)
        else { return nil }
        self.init(validator: validator, offset: offset, total: head.contentLength)
    }

    package init(validator: String, offset: Int64, total: Int64?) {
        self.validator = validator
        self.offset = offset
        self.total = total
    }

    /// The request for the rest.
    package func request(_ request: URLRequest) -> URLRequest {
        var request = request
        request.setValue("bytes=\(offset)-", forHTTPHeaderField: "Range")
        request.setValue(validator, forHTTPHeaderField: "If-Range")
        return request
    }

    package func judge(_ head: ResponseHead) -> Verdict {
        switch head.statusCode {
        case 206:
            guard !head.isEncoded, let range = ContentRange(head["Content-Range"]), range.first == offset,
                total == nil || range.total == nil || range.total == total,
                range.total.map({ $0 == range.last + 1 }) ?? true,
                head["ETag"].map({ !validator.hasPrefix("\"") || $0 == validator }) ?? true
            else { return .askForWhole }
            return .append
        case 416:
            guard let range = ContentRange.unsatisfied(head["Content-Range"]), range == offset,
                total == nil || total == offset
            else { return .askForWhole }
            return .alreadyComplete
        case 200..<300: return .startOver
        default: return .unrelated
        }
    }

    /// A strong tag, or a date a minute older than the response: a younger one may name two representations.
    private static func validator(of head: ResponseHead) -> String? {
        if let tag = head["ETag"] {
            return tag.count >= 2 && tag.hasPrefix("\"") && tag.hasSuffix("\"") ? tag : nil
        }
        guard let modified = head["Last-Modified"], let date = head["Date"],
            let modifiedTime = HTTPDate.parse(modified), let time = HTTPDate.parse(date),
            time - modifiedTime >= 60
        else { return nil }
        return modified
    }
}

/// The header field of the same name (RFC 9110, section 14.4).
struct ContentRange: Equatable {
    let first: Int64
    let last: Int64
    /// nil for `*`.
    let total: Int64?

    init?(_ text: String?) {
        guard let rest = Self.afterUnit(text), let slash = rest.firstIndex(of: "/"),
            let dash = rest[..<slash].firstIndex(of: "-"),
            let first = Self.number(rest[..<dash]), let last = Self.number(rest[rest.index(after: dash)..<slash]),
            first <= last
        else { return nil }
        let length = rest[rest.index(after: slash)...]
        if length == "*" {
            total = nil
        } else {
            guard let number = Self.number(length), last < number else { return nil }
            total = number
        }
        self.first = first
        self.last = last
    }

    /// The length in `bytes */1234`.
    static func unsatisfied(_ text: String?) -> Int64? {
        guard let rest = afterUnit(text), rest.hasPrefix("*/") else { return nil }
        return number(rest.dropFirst(2))
    }

    private static func afterUnit(_ text: String?) -> Substring? {
        guard let text, text.lowercased().hasPrefix("bytes ") else { return nil }
        return text.dropFirst(6)
    }

    private static func number(_ digits: Substring) -> Int64? {
        guard !digits.isEmpty, digits.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) else {
            return nil
        }
        return Int64(digits)
    }
}

/// Dates in HTTP's own form, `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7).
enum HTTPDate {
    /// Seconds since 1970.
    static func parse(_ text: String) -> Int? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int(parts[1]), let year = Int(parts[3]),
            let month = months.firstIndex(of: String(parts[2]))
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int($0) }
        guard clock.count == 3 else { return nil }
        var fields = tm()
        fields.tm_mday = Int32(truncatingIfNeeded: day)
        fields.tm_mon = Int32(month)
        fields.tm_year = Int32(truncatingIfNeeded: year - 1900)
        fields.tm_hour = Int32(truncatingIfNeeded: clock[0])
        fields.tm_min = Int32(truncatingIfNeeded: clock[1])
        fields.tm_sec = Int32(truncatingIfNeeded: clock[2])
        return timegm(&fields)
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
