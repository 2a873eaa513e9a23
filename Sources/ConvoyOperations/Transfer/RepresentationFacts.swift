import ConvoySupport
import ConvoyTransport
import Foundation

/// The facts that earlier responses stated about a partly received representation, and the interpretation of responses
/// to range requests (RFC 9110, sections 8.8, 13.1.5, 14 and 15.3.7).
///
/// This value type performs no I/O. It ensures that bytes of two representations are never combined, and that a partial
/// body is never accepted as the complete one. Servers that ignore `If-Range`, or answer a range request with the wrong
/// status code, are common. Therefore the response's own fields decide, and a response that contradicts an earlier
/// response is rejected.
package struct RepresentationFacts: Sendable, Equatable {
    /// The validators of a representation, as `SafeFieldValue` strings, which preserve the bytes and can be sent.
    package struct Validators: Sendable, Equatable {
        /// A strong entity tag.
        package let entityTag: String?
        package let lastModified: String?

        /// Creates validators. A value that cannot be sent becomes nil.
        package init(entityTag: String?, lastModified: String?) {
            self.entityTag = entityTag.flatMap { SafeFieldValue(text: $0)?.text }
            self.lastModified = lastModified.flatMap { SafeFieldValue(text: $0)?.text }
        }

        fileprivate init(_ entityTag: SafeFieldValue?, modified: SafeFieldValue?) {
            self.entityTag = entityTag?.text
            lastModified = modified?.text
        }

        /// Whether both validators are missing.
        package var isEmpty: Bool { entityTag == nil && lastModified == nil }

        /// The value for `If-Range`.
        package var condition: String? { entityTag ?? lastModified }
    }

    /// The validators; nil if only a checksum of the complete body can show whether bytes belong to the representation.
    package let validators: Validators?
    /// The complete length in bytes; nil if no response has stated it.
    package let length: Int64?
    /// The number of consecutive bytes received from the start. The representation has at least as many bytes.
    package let received: Int64

    package init(validators: Validators?, length: Int64?, received: Int64 = 0) {
        self.validators = validators
        self.length = length
        self.received = received
    }

    // MARK: Responses

    /// The meaning of a response to a range request.
    package enum Answer: Equatable, Sendable {
        /// Bytes of this representation follow, from the requested offset through the given position, of the given
        /// total length.
        case part(through: Int64, of: Int64)
        /// The complete body of this or a different representation follows, from its first byte.
        case whole
        /// The representation ends where the range begins, so it is complete.
        case complete
        /// The response is unusable: it contains a part that was not requested, or indicates success without a usable
        /// body.
        case useless
        /// The response describes a different representation, or contradicts an earlier response.
        case differs
        /// The response does not describe the representation, for example a server error.
        case unrelated
    }

    /// Evaluates the response to a range request.
    ///
    /// - Parameters:
    ///   - offset: The position of the first byte of the range.
    ///   - end: The position after the last byte of the range; nil if unknown.
    ///   - isSamePlace: Whether the response came from the representation's URL. Validators of other URLs are
    ///     meaningless.
    package func evaluate(
        _ head: ResponseHead, from offset: Int64, upTo end: Int64?, isSamePlace: Bool
    ) -> Answer {
        switch head.statusCode {
        case 206: return evaluatePart(head, from: offset, isSamePlace: isSamePlace)
        case 416:
            // If the length was never known, a 416 does not prove that this is the same body.
            let isAtEnd = length == offset && ContentRange.unsatisfied(head["Content-Range"]) == offset
            return isAtEnd ? .complete : .useless
        case 200, 203, 226:
            // `Content-Range` has no meaning in a response other than a 206 (RFC 9110, section 14.4). But some servers
            // send only the specified part, and others the complete body, so the response is accepted only if both
            // interpretations agree.
            if head.hasField("content-range"), !head.saysThatItIsWhole { return .useless }
            // A body as long as the requested part may be that part, whatever its status code.
            if offset > 0, let end, !head.isEncoded, head.contentLength == end - offset { return .useless }
            return isDenied(by: head, isSamePlace: isSamePlace) ? .differs : .whole
        case 200..<300: return .useless
        default: return .unrelated
        }
    }

    private func evaluatePart(_ head: ResponseHead, from offset: Int64, isSamePlace: Bool) -> Answer {
        guard !head.isEncoded, !head.hasSeveralParts, let range = ContentRange(head["Content-Range"]),
            range.first == offset,
            // A range without a total does not show where the body ends.
            let whole = range.total, head.contentLength == nil || head.contentLength == range.last - range.first + 1
        else { return .useless }
        let isSame = isSamePlace && (validators.map { repeats($0, in: head) } ?? true)
        guard isSame, length == nil || length == whole else { return .differs }
        return .part(through: range.last, of: whole)
    }

    /// Returns whether the response to a request for the complete body is unusable too, after an unusable response to a
    /// range request: it is declared as a partial body, or contradicts earlier responses.
    package func isDenied(byWhole head: ResponseHead, isSamePlace: Bool) -> Bool {
        guard [200, 203, 226].contains(head.statusCode), !head.isEncoded else { return false }
        return ContentRange(head["Content-Range"]) != nil && !head.saysThatItIsWhole
            || isDenied(by: head, isSamePlace: isSamePlace)
    }

    /// Returns whether a complete body has the strong tag of this representation (RFC 9110, section 8.8.1) but a
    /// different length.
    private func isDenied(by head: ResponseHead, isSamePlace: Bool) -> Bool {
        guard hasTag(of: head, isSamePlace: isSamePlace), let told = head.contentLength else { return false }
        return length.map { $0 != told } ?? (told < received)
    }

    /// Returns whether a head has the strong tag of this representation, and therefore describes the same bytes.
    package func hasTag(of head: ResponseHead, isSamePlace: Bool) -> Bool {
        guard isSamePlace, !head.isEncoded, let tag = validators?.entityTag else { return false }
        return Self.areSame(head.echoedValue(of: "ETag")?.text, tag)
    }

    /// Returns whether a partial response has the given validators. The response must repeat the tag. The date must not
    /// differ, and is required if the validators contain no tag.
    private func repeats(_ validators: Validators, in head: ResponseHead) -> Bool {
        if let tag = validators.entityTag, !Self.areSame(head.echoedValue(of: "ETag")?.text, tag) { return false }
        guard let lastModified = validators.lastModified else { return true }
        guard let other = head.echoedValue(of: "Last-Modified") else { return validators.entityTag != nil }
        return Self.areSame(other.text, lastModified)
    }

    /// Compares the bytes of two strings, because Swift's `==` treats canonically equivalent strings as equal.
    private static func areSame(_ one: String?, _ other: String) -> Bool {
        one?.utf8.elementsEqual(other.utf8) ?? false
    }
}

extension RepresentationFacts.Validators {
    /// Creates the validators of a response: a strong tag, or a modification date at least a minute older than the
    /// response, because two representations may share a more recent date. Returns nil if the head has neither.
    package init?(of head: ResponseHead) {
        let modified = head.echoedValue(of: "Last-Modified")
        if head.hasField("etag") {
            // If the response has an unusable tag, such as a weak one, its date alone is not sufficient either.
            let quote = UInt8(ascii: "\"")
            guard let tag = head.echoedValue(of: "ETag"), tag.bytes.count >= 2, tag.bytes.first == quote,
                tag.bytes.last == quote
            else { return nil }
            self.init(tag, modified: modified)
            return
        }
        guard let modified, let date = head["Date"], let modifiedTime = HTTPDate.parse(modified.text),
            let time = HTTPDate.parse(date), time - modifiedTime >= 60
        else { return nil }
        self.init(nil, modified: modified)
    }
}

extension ResponseHead {
    /// Whether the `Content-Range` covers all bytes, and the `Content-Length` does not contradict it.
    fileprivate var saysThatItIsWhole: Bool {
        guard let range = ContentRange(self["Content-Range"]), range.first == 0, let total = range.total else {
            return false
        }
        return range.last == total - 1 && (contentLength == nil || contentLength == total)
    }

    /// Whether the body consists of several parts with their own heads, which a single range does not request (RFC
    /// 9110, section 15.3.7.2).
    fileprivate var hasSeveralParts: Bool {
        guard let type = self["Content-Type"]?.lowercased() else { return false }
        return type.drop { $0 == " " || $0 == "\t" }.hasPrefix("multipart/byteranges")
    }
}

/// The `Content-Range` header field (RFC 9110, section 14.4).
package struct ContentRange: Equatable {
    package let first: Int64
    package let last: Int64
    /// The total length; nil for `*`.
    package let total: Int64?

    package init?(_ text: String?) {
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

    /// Returns the length in a value like `bytes */1234`; nil for other values.
    static func unsatisfied(_ text: String?) -> Int64? {
        guard let rest = afterUnit(text), rest.hasPrefix("*/") else { return nil }
        return number(rest.dropFirst(2))
    }

    private static func afterUnit(_ text: String?) -> Substring? {
        guard let text, text.lowercased().hasPrefix("bytes ") else { return nil }
        return text.dropFirst(6)
    }

    private static func number(_ digits: Substring) -> Int64? {
        digits.utf8.allSatisfy { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") } ? Int64(digits) : nil
    }
}
