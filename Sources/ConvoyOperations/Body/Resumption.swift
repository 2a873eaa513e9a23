import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// How a body that has come in part is asked for again, and what the answer means (RFC 9110, sections 13.1.5, 14 and
/// 15.3.7).
///
/// A value without I/O. The one aim: bytes of two different representations are never put together, and nothing
/// short is taken for the whole. Servers that ignore `If-Range` are common, so the answer's own validators decide.
package struct Resumption: Sendable, Equatable {
    /// What names the representation, as the first response told it.
    package struct Validators: Sendable, Equatable {
        /// A strong entity tag.
        package var entityTag: String?
        package var lastModified: String?

        /// Whether an answer with this head is about the same representation. A tag that was there must be there
        /// again; a date must not differ, and must be there again where nothing else names the representation.
        func match(_ head: ResponseHead) -> Bool {
            if let entityTag, !Self.areSame(head["ETag"], entityTag) { return false }
            guard let lastModified else { return true }
            guard let other = head["Last-Modified"] else { return entityTag != nil }
            return Self.areSame(other, lastModified)
        }

        /// Byte for byte: to Swift, two ways of writing an accent are equal.
        private static func areSame(_ one: String?, _ other: String) -> Bool {
            one?.utf8.elementsEqual(other.utf8) ?? false
        }
    }

    package let validators: Validators
    /// Where the representation was: its validators mean nothing elsewhere. nil for any place.
    package let url: URL?
    /// How many bytes are there.
    package let offset: Int64
    /// How many there are in all, if a response has said so.
    package let total: Int64?

    /// What the head of the answer means for the bytes that are there.
    package enum Verdict: Equatable, Sendable {
        /// The rest comes: append, until there are `total` bytes.
        case append(total: Int64)
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
    ///
    /// - Parameter total: how many bytes there are in all, where an answer to a range has said what `head` did not.
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
            // Where nobody knows the length, "nothing behind your last byte" does not say that it is the same body.
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
            // A range without a total proves no end, and one that stops before it is a part of a part.
            let whole = range.total, range.last == whole - 1, total == nil || total == whole,
            head.contentLength == nil || head.contentLength == whole - offset
        else { return .askForWhole }
        return .append(total: whole)
    }

    private static func isSamePlace(_ one: URL, _ other: URL?) -> Bool {
        func bytes(_ url: URL) -> Substring.UTF8View { url.absoluteString.utf8.prefix { $0 != UInt8(ascii: "#") } }
        return other.map { bytes(one).elementsEqual(bytes($0)) } ?? true
    }

    /// A strong tag, or a date a minute older than the response: a younger one may name two representations.
    private static func validators(of head: ResponseHead) -> Validators? {
        let modified = head["Last-Modified"]
        if let tag = head["ETag"] {
            guard tag.utf8.count >= 2, tag.hasPrefix("\""), tag.hasSuffix("\"") else { return nil }
            return Validators(entityTag: tag, lastModified: modified)
        }
        guard let modified, let date = head["Date"], let modifiedTime = HTTPDate.parse(modified),
            let time = HTTPDate.parse(date), time - modifiedTime >= 60
        else { return nil }
        return Validators(entityTag: nil, lastModified: modified)
    }
}
