import ConvoySupport
import Foundation
import FoundationNetworking

/// A serializer that validates the status and the content type, and returns the body unchanged. The counterpart of
/// `AFHTTPResponseSerializer`.
public struct HTTPResponseSerializer: HTTPResponseSerialization {
    /// The acceptable status codes; nil accepts all. The default is 200 to 299.
    public var acceptableStatusCodes: StatusCodeSet? = .successful
    /// The acceptable media types, without parameters and case-insensitive; nil, the default, accepts all. `*+json`
    /// matches all types with that suffix (RFC 6838, section 4.2.8); the same applies to other suffixes, for example
    /// `*+xml`.
    public var acceptableContentTypes: Set<String>?
    /// The encoding of text in responses that do not specify a charset. The default is UTF-8.
    public var stringEncoding = String.Encoding.utf8
    /// The limits for parsed bodies, which apply to serializers that wrap this one. This serializer itself does not
    /// parse bodies.
    public var limits = ResponseLimits.standard

    /// Creates a serializer that accepts the status codes 200 to 299 and any content type.
    public init() {}

    /// Creates a serializer that accepts another serializer's status codes and any content type, for bodies written to
    /// files.
    package init(statusesOf other: any HTTPResponseSerialization) { acceptableStatusCodes = other.acceptableStatusCodes }

    package init(contentTypes: Set<String>) { acceptableContentTypes = contentTypes }

    /// This serializer itself, for code that configures any serializer through this property.
    public var http: HTTPResponseSerializer {
        get { self }
        set { self = newValue }
    }

    /// Validates the status and the content type of an HTTP response.
    ///
    /// The content type is validated only if there is a body. A response that is nil or not an HTTP response is always
    /// valid.
    ///
    /// - Throws: An error in ``URLResponseSerializationErrorDomain``: -1016, "Request failed: unacceptable
    ///   content-type: …" or "Request failed: the response has no content-type"; -1011, "Request failed: not found
    ///   (404)"; or the latter with the former as its underlying error. Both have `NSURLErrorFailingURLErrorKey` and
    ///   the keys of ``URLResponseSerializationErrorKey``.
    public func validate(_ response: URLResponse?, data: Data?) throws {
        if let error = validationError(response, data: data) { throw error }
    }

    func validationError(_ response: URLResponse?, data: Data?) -> NSError? {
        guard let response = response as? HTTPURLResponse else { return nil }
        var error: NSError?
        if let types = acceptableContentTypes, let data, !data.isEmpty {
            let type = response.mimeType.map { HTTPResponseSerializer.bare($0) } ?? ""
            if !HTTPResponseSerializer.contains(type, in: types) {
                let reason = type.isEmpty ? "the response has no content-type" : "unacceptable content-type: \(type)"
                error = .response(
                    NSURLErrorCannotDecodeContentData, "Request failed: \(reason)", response, data: data)
            }
        }
        if let codes = acceptableStatusCodes, !codes.contains(response.statusCode) {
            let status = response.statusCode
            error = NSError.response(
                NSURLErrorBadServerResponse, "Request failed: \(StatusText.localizedString(status)) (\(status))",
                response, data: data
            ).over(error)
        }
        return error
    }

    /// Returns the unchanged body. If the response is not acceptable, the error contains the body.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        if let error = validationError(response, data: data) {
            throw error.adding(data, for: URLResponseSerializationErrorKey.responseObject)
        }
        return data
    }

    /// Returns whether a response with the given status is acceptable regardless of its headers. This requires that all
    /// content types are acceptable.
    public func acceptsWithoutHeaders(statusCode: Int) -> Bool {
        acceptableContentTypes == nil && (acceptableStatusCodes?.contains(statusCode) ?? true)
    }

    /// Removes the trailing space that Foundation keeps in the type of `text/html ;charset=…`.
    private static func bare(_ type: String) -> String {
        guard let last = type.utf8.last, last == 0x20 || last == 0x09 else { return type }
        return type.trimmingCharacters(in: .whitespaces)
    }

    private static func contains(_ type: String, in types: Set<String>) -> Bool {
        guard !type.isEmpty else { return false }
        if types.contains(type) { return true }
        let lowercased = type.lowercased()
        let suffix = lowercased.lastIndex(of: "+").map { "*\(lowercased[$0...])" }
        return types.contains { [lowercased, suffix].contains($0.lowercased()) }
    }
}

extension HTTPResponseSerializer {
    /// Implements the rule shared by all parsing serializers. A body with an unacceptable content type is not parsed. A
    /// body with an unacceptable status is parsed, and the error contains the object.
    ///
    /// - Parameter parse: Creates the object from a body that is not empty. It may return nil for a success without an
    ///   object.
    package func responseObject(
        for response: URLResponse?, data: Data?, parsing parse: (Data) throws -> Any?
    ) throws -> Any? {
        let invalid = validationError(response, data: data)
        if let invalid, invalid.has(code: NSURLErrorCannotDecodeContentData, in: URLResponseSerializationErrorDomain) {
            throw invalid
        }
        var object: Any?
        if let data, !data.isEmpty, !hasNoContent(response) {
            do {
                try limits.checkSize(of: data, response: response)
                object = try parse(data)
            } catch {
                guard let invalid else { throw error }
                throw (error as NSError).over(invalid)
            }
        }
        if let invalid { throw invalid.adding(object, for: URLResponseSerializationErrorKey.responseObject) }
        return object
    }

    /// Returns whether the status is 204 or 205. Such responses have no body, regardless of what the server sends (RFC
    /// 9110, sections 15.3.5 and 15.3.6).
    func hasNoContent(_ response: URLResponse?) -> Bool {
        guard let status = (response as? HTTPURLResponse)?.statusCode else { return false }
        return status == 204 || status == 205
    }

    /// Returns whether the body is a single space, which Rails sends for `head :ok`.
    package static func isOneSpace(_ data: Data) -> Bool { data.count == 1 && data.first == 0x20 }
}

/// A set of HTTP status codes, stored as ranges.
///
/// For example, `[200, 404]`, `StatusCodeSet(200..<300)` or `StatusCodeSet.successful.union([304])`.
public struct StatusCodeSet: Sendable, Hashable, ExpressibleByArrayLiteral {
    private var ranges: [Range<Int>] = []

    /// Creates a set with the codes in a range.
    public init(_ codes: Range<Int>) { insert(codes) }
    /// Creates a set with the codes in a closed range.
    public init(_ codes: ClosedRange<Int>) { insert(codes) }
    /// Creates a set with the given codes.
    public init(_ codes: some Sequence<Int>) { for code in codes { insert(code...code) } }
    /// Creates a set with the given codes.
    public init(arrayLiteral elements: Int...) { self.init(elements) }

    /// The status codes 200 to 299, as in AFNetworking.
    public static let successful = StatusCodeSet(200..<300)
    /// The status codes 200 to 399.
    public static let successfulOrRedirected = StatusCodeSet(200..<400)

    /// Returns whether the set contains the code.
    public func contains(_ code: Int) -> Bool {
        for range in ranges where range.contains(code) { return true }
        return false
    }

    /// Returns the codes in either set.
    public func union(_ other: StatusCodeSet) -> StatusCodeSet {
        var result = self
        for range in other.ranges { result.insert(range) }
        return result
    }

    /// Adds the codes in a closed range. `Int.max` is left out, because a half-open range cannot contain it.
    private mutating func insert(_ codes: ClosedRange<Int>) {
        insert(codes.lowerBound..<(codes.upperBound == .max ? .max : codes.upperBound + 1))
    }

    /// Adds the codes in a range.
    public mutating func insert(_ codes: Range<Int>) {
        guard !codes.isEmpty else { return }
        // Merge adjacent ranges and keep them sorted, so that equal sets compare equal.
        var merged = codes
        var result: [Range<Int>] = []
        for range in ranges {
            if range.upperBound < merged.lowerBound || range.lowerBound > merged.upperBound {
                result.append(range)
            } else {
                merged = min(range.lowerBound, merged.lowerBound)..<max(range.upperBound, merged.upperBound)
            }
        }
        result.append(merged)
        ranges = result.sorted { $0.lowerBound < $1.lowerBound }
    }
}

/// Limits for parsed bodies. If one is exceeded, the error has the code `NSURLErrorDataLengthExceedsMaximum` (-1103)
/// and a ``ResponseLimitExceeded`` in its `userInfo`.
///
/// A plain ``HTTPResponseSerializer`` does not parse and ignores the limits.
public struct ResponseLimits: Sendable, Hashable {
    /// The maximum size of a parsed body, in bytes after decompression. The default is 64 MiB. A parsed body uses
    /// several times as much memory.
    public var maximumBodySize: Int
    /// The maximum nesting of arrays and objects. The default is 512. `JSONSerialization` has the same limit, but
    /// reports a different error.
    public var maximumNestingDepth: Int
    /// Whether a repeated key in a JSON object is an error (``JSONSyntaxError``). The default is false: the first value
    /// is used, in all serializers. If true, all serializers except ``JSONTreeResponseSerializer`` parse the body
    /// twice.
    public var rejectsDuplicateKeys = false

    /// Creates limits, each of which has a default.
    public init(maximumBodySize: Int = 64 << 20, maximumNestingDepth: Int = 512) {
        self.maximumBodySize = maximumBodySize
        self.maximumNestingDepth = maximumNestingDepth
    }

    /// The default limits.
    public static let standard = ResponseLimits()

    func checkSize(of data: Data, response: URLResponse?) throws {
        guard data.count > maximumBodySize else { return }
        throw NSError.limit(
            .bodySize, "The body of \(data.count) bytes is longer than the limit of \(maximumBodySize).", response)
    }

    func nestingError(_ response: URLResponse?) -> NSError {
        .limit(.nestingDepth, "The body is nested deeper than the limit of \(maximumNestingDepth).", response)
    }
}

/// The limit that the body of a response has exceeded.
public enum ResponseLimitExceeded: String, Sendable, Hashable {
    /// The body is larger than ``ResponseLimits/maximumBodySize``.
    case bodySize
    /// The body is nested deeper than ``ResponseLimits/maximumNestingDepth``.
    case nestingDepth
    /// The property list is small in bytes, but expands to a huge tree.
    case expansion
    /// The document type of the XML document contains declarations, for example of entities.
    case declarations
    /// The names in the XML document would take too long to compare: a tag has more than 1,024 attributes, more than
    /// 256 namespaces are in scope, or the document contains more than 100,000 different names.
    case names
    /// The image has more pixels than allowed.
    case pixelCount
    /// The image is wider or higher than allowed.
    case imageDimension
}
