import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// How the rest of a partly received body is requested, and what the answer means (RFC 9110, sections 13.1.5, 14 and
/// 15.3.7).
///
/// A value without I/O. Its purpose is that bytes of two different representations are never combined, and an
/// incomplete body is never taken for a complete one. Servers that ignore `If-Range` are common, so the answer's own
/// validators decide.
package struct Resumption: Sendable, Equatable {
    /// What identifies the representation, from the first response.
    ///
    /// As texts of `EchoedValue`: they stand for the bytes that came, and can be sent.
    package struct Validators: Sendable, Equatable {
        /// A strong entity tag.
        package let entityTag: String?
        package let lastModified: String?

        /// What cannot be sent becomes nil.
        package init(entityTag: String?, lastModified: String?) {
            self.entityTag = entityTag.flatMap { EchoedValue(text: $0)?.text }
            self.lastModified = lastModified.flatMap { EchoedValue(text: $0)?.text }
        }

        /// Whether there is nothing by which the representation could be known again.
        package var isEmpty: Bool { entityTag == nil && lastModified == nil }

        /// Whether a response with this head is for the same representation. A tag must be repeated. A date must not
        /// differ, and must be repeated if there is no tag.
        package func match(_ head: ResponseHead) -> Bool {
            if let entityTag, !Self.areSame(head.echoedValue(of: "ETag")?.text, entityTag) { return false }
            guard let lastModified else { return true }
            guard let other = head.echoedValue(of: "Last-Modified") else { return entityTag != nil }
            return Self.areSame(other.text, lastModified)
        }

        /// Compares bytes: Swift's `==` treats canonically equivalent strings as equal.
        private static func areSame(_ one: String?, _ other: String) -> Bool {
            one?.utf8.elementsEqual(other.utf8) ?? false
        }
    }

    package let validators: Validators
    /// The URL of the representation; its validators mean nothing at another one. nil for any URL.
    package let url: URL?
    /// How many bytes have been received.
    package let offset: Int64
    /// The length of the whole body, if a response has told it.
    package let total: Int64?

    /// What the head of the answer means for the bytes already received.
    package enum Verdict: Equatable, Sendable {
        /// The rest follows: append until there are `total` bytes.
        case append(total: Int64)
        /// The whole body follows from its first byte: drop what was received.
        case startOver
        /// The body is already complete.
        case alreadyComplete
        /// The answer is unusable: request the whole body, without a range.
        case askForWhole
        /// The answer is not about the body, such as a server error: it becomes the response, and the received bytes
        /// are kept.
        case unrelated
    }

    /// How to continue after a try that received `offset` bytes of the body that `head` announced; nil if only starting
    /// over from the first byte is safe.
    ///
    /// - Parameter total: the length of the whole body, if the answer to a range told it and `head` did not.
    package init?(after head: ResponseHead?, of request: URLRequest, offset: Int64, total: Int64? = nil) {
        guard let head, offset > 0, head.statusCode == 200, !head.isEncoded,
            (request.httpMethod ?? "GET") == "GET", request.httpBody == nil, request.httpBodyStream == nil,
            request.value(forHTTPHeaderField: "Range") == nil,
            let validators = Self.validators(of: head)
        else { return nil }
        self.init(validators: validators, url: head.url, offset: offset, total: total ?? head.contentLength)
    }

    package init(validators: Validators, url: URL? = nil, offset: Int64, total: Int64?) {
        self.validators = validators
        self.url = url
        self.offset = offset
        self.total = total
    }

    /// The request for the rest.
    package func request(_ request: URLRequest) -> URLRequest {
        var request = request
        request.setValue("bytes=\(offset)-", forHTTPHeaderField: "Range")
        request.setValue(validators.entityTag ?? validators.lastModified, forHTTPHeaderField: "If-Range")
        return request
    }

    package func evaluate(_ head: ResponseHead) -> Verdict {
        switch head.statusCode {
        case 206: return evaluatePart(head)
        case 416:
            // If the length was never known, a 416 does not prove that this is the same body.
            guard let total, total == offset, ContentRange.unsatisfied(head["Content-Range"]) == offset else {
                return .askForWhole
            }
            return .alreadyComplete
        case 200..<300: return .startOver
        default: return .unrelated
        }
    }

    private func evaluatePart(_ head: ResponseHead) -> Verdict {
        guard !head.isEncoded, url == nil || Self.isSamePlace(head.url, url), validators.match(head),
            let range = ContentRange(head["Content-Range"]), range.first == offset,
            // A range without a total does not show where the body ends, and one that stops short of the total leaves a
            // gap.
            let whole = range.total, range.last == whole - 1, total == nil || total == whole,
            head.contentLength == nil || head.contentLength == whole - offset
        else { return .askForWhole }
        return .append(total: whole)
    }

    private static func isSamePlace(_ one: URL, _ other: URL?) -> Bool {
        func bytes(_ url: URL) -> Substring.UTF8View { url.absoluteString.utf8.prefix { $0 != UInt8(ascii: "#") } }
        return other.map { bytes(one).elementsEqual(bytes($0)) } ?? true
    }

    /// A strong tag, or a date at least a minute older than the response: two representations may share a more recent
    /// one.
    package static func validators(of head: ResponseHead) -> Validators? {
        let modified = head.echoedValue(of: "Last-Modified")?.text
        if head.hasField("etag") {
            // A tag that is no use is none, but says that the date does not suffice.
            let quote = UInt8(ascii: "\"")
            guard let tag = head.echoedValue(of: "ETag"), tag.bytes.count >= 2, tag.bytes.first == quote,
                tag.bytes.last == quote
            else { return nil }
            return Validators(entityTag: tag.text, lastModified: modified)
        }
        guard let modified, let date = head["Date"], let modifiedTime = HTTPDate.parse(modified),
            let time = HTTPDate.parse(date), time - modifiedTime >= 60
        else { return nil }
        return Validators(entityTag: nil, lastModified: modified)
    }
}
