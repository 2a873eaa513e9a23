import ConvoySupport
import Foundation
import FoundationNetworking

/// A serializer that decodes the body as text, in the charset specified by the response or otherwise in
/// `stringEncoding`.
///
/// AFNetworking has no counterpart; its users decode the data from an `AFHTTPResponseSerializer`. By default, any
/// content type is acceptable. A byte-order mark takes precedence over the charset and is not part of the text.
///
/// Charset names are the labels of the WHATWG Encoding Standard, as in browsers: `ISO-8859-1` and `US-ASCII` are
/// windows-1252, `GB2312` is GBK, and `UTF-16` without a byte-order mark is little-endian. As the standard requires,
/// `ISO-2022-KR`, `ISO-2022-CN` and `HZ-GB-2312` are never decoded. All other charsets known to iconv(3) are supported
/// as well.
public struct StringResponseSerializer: HTTPResponseSerialization {
    /// The acceptable responses, and the limits.
    public var http = HTTPResponseSerializer()

    /// Creates a serializer that accepts any content type.
    public init() {}

    /// Returns a `String`; nil for the statuses 204 and 205 and for a nil body, and an empty string for an empty body.
    ///
    /// - Throws: The errors of ``HTTPResponseSerializer/validate(_:data:)``; an error with the code -1016 if the bytes
    ///   are invalid in their charset; an error if a limit is exceeded.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let object = try http.responseObject(for: response, data: data) { data in
            try http.text(data, response: response)
        }
        if object == nil, let data, data.isEmpty, !http.hasNoContent(response) { return "" }
        return object
    }
}

/// Detection of the charset of a body, and conversion to UTF-8 for parsers that require it.
extension HTTPResponseSerializer {
    /// Returns the text of a body, without its byte-order mark.
    func text(_ data: Data, response: URLResponse?) throws -> String {
        try text(data, in: .ofText(data, label: response?.textEncodingName, otherwise: Charset(stringEncoding)), response)
    }

    /// Returns the bytes of JSON: the body itself if it is in UTF-8, and otherwise the converted body.
    func jsonText(_ data: Data, response: URLResponse?) throws -> Data {
        let charset = Charset.ofJSON(data, label: response?.textEncodingName, otherwise: Charset(stringEncoding))
        if charset.isUTF8 { return data }
        return Data(try text(data, in: charset, response).utf8)
    }

    private func text(_ data: Data, in charset: Charset, _ response: URLResponse?) throws -> String {
        guard let text = charset.text(of: data) else {
            throw NSError.response(
                NSURLErrorCannotDecodeContentData, "The body cannot be decoded as \(charset.name).", response, data: data
            ).adding("Could not decode string: \(data.count) bytes", for: NSLocalizedFailureReasonErrorKey)
        }
        return text
    }
}
