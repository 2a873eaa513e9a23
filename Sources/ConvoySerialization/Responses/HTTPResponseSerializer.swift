import ConvoySupport
import Foundation
import FoundationNetworking

/// Checks status and content type, and returns the body as it is. The counterpart of `AFHTTPResponseSerializer`.
public struct HTTPResponseSerializer: HTTPResponseSerialization {
    /// The status codes that are success; nil for any. 200 to 299.
    public var acceptableStatusCodes: StatusCodeSet? = .successful
    /// The media types that are acceptable, without parameters, compared without regard to case; nil for any.
    public var acceptableContentTypes: Set<String>?
    /// The encoding of text in a response that names none. UTF-8.
    public var stringEncoding = String.Encoding.utf8
    /// How much of a body is parsed. For the serializers that parse; this one does not.
    public var limits = ResponseLimits.standard

    /// A serializer that accepts 200 to 299 and any content type.
    public init() {}

    package init(contentTypes: Set<String>) { acceptableContentTypes = contentTypes }

    /// This serializer. Here so that all serializers are set up alike.
    public var http: HTTPResponseSerializer {
        get { self }
        set { self = newValue }
    }

    /// Checks the status and the content type of an HTTP response.
    ///
    /// The content type counts only where there is a body. A nil response, or one that is not HTTP, passes.
    ///
    /// - Throws: in ``URLResponseSerializationErrorDomain``: -1016, "Request failed: unacceptable content-type: …",
    ///   -1011, "Request failed: not found (404)", or the second over the first. Both have
    ///   `NSURLErrorFailingURLErrorKey` and the keys of ``URLResponseSerializationErrorKey``.
    public func validate(_ response: URLResponse?, data: Data?) throws {
        if let error = validationError(response, data: data) { throw error }
    }

    func validationError(_ response: URLResponse?, data: Data?) -> NSError? {
        guard let response = response as? HTTPURLResponse else { return nil }
        var error: NSError?
        if let types = acceptableContentTypes, let data, !data.isEmpty {
            let type = response.mimeType.map { HTTPResponseSerializer.bare($0) }
            if !HTTPResponseSerializer.contains(type, in: types) {
                error = .response(
                    NSURLErrorCannotDecodeContentData,
                    "Request failed: unacceptable content-type: \(type ?? "(null)")", response, data: data)
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

    /// The body, whatever it is. When the response is not acceptable, the body is with the error.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        if let error = validationError(response, data: data) {
            throw error.adding(data, for: URLResponseSerializationErrorKey.responseObject)
        }
        return data
    }

    /// True when the status is acceptable and any content type is: this serializer then needs no response.
    public func acceptsWithoutHeaders(statusCode: Int) -> Bool {
        acceptableContentTypes == nil && (acceptableStatusCodes?.contains(statusCode) ?? true)
    }

    /// Foundation leaves the space of `text/html ;charset=…` in the type.
    private static func bare(_ type: String) -> String {
        guard let last = type.utf8.last, last == 0x20 || last == 0x09 else { return type }
        return type.trimmingCharacters(in: .whitespaces)
    }

    private static func contains(_ type: String?, in types: Set<String>) -> Bool {
        guard let type, !type.isEmpty else { return false }
        if types.contains(type) { return true }
        let lowercased = type.lowercased()
        return types.contains { $0.lowercased() == lowercased }
    }
}

extension HTTPResponseSerializer {
    /// The rule that all parsing serializers share: a body of the wrong content type is not parsed; the body of an
    /// unacceptable status is, and the object goes with the error.
    ///
    /// - Parameter parse: makes the object of a body that is not empty; nil for success with nothing.
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
                // As it is, where there is nothing to add: a `DecodingError` does not survive becoming an `NSError`.
                guard let invalid else { throw error }
                throw (error as NSError).over(invalid)
            }
        }
        if let invalid { throw invalid.adding(object, for: URLResponseSerializationErrorKey.responseObject) }
        return object
    }

    /// 204 and 205 have no body, whatever a server sends after them (RFC 9110, sections 15.3.5 and 15.3.6).
    func hasNoContent(_ response: URLResponse?) -> Bool {
        guard let status = (response as? HTTPURLResponse)?.statusCode else { return false }
        return status == 204 || status == 205
    }

    /// The body that Rails sends for `head :ok`.
    package static func isOneSpace(_ data: Data) -> Bool { data.count == 1 && data.first == 0x20 }
}
