import ConvoySupport
import Foundation
import FoundationNetworking

/// Decodes the body as text, in the charset that the response names or else in `stringEncoding`.
///
/// AFNetworking has no counterpart; its users decode the data of an `AFHTTPResponseSerializer`. By default any content
/// type is acceptable. A byte-order mark takes precedence over the charset and is not part of the text.
///
/// The names of charsets are the labels of the WHATWG Encoding Standard, as in browsers: `ISO-8859-1` and `US-ASCII` are
/// windows-1252, `GB2312` is GBK, and `UTF-16` without a byte-order mark is little-endian. `ISO-2022-KR`, `ISO-2022-CN`
/// and `HZ-GB-2312` are never decoded, as the standard demands. All other names that iconv(3) knows are decoded, too.
public struct StringResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits.
    public var http = HTTPResponseSerializer()

    /// A serializer that accepts any content type.
    public init() {}

    /// A `String`; nil for 204, 205 and no body at all, empty for an empty body.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; -1016 for bytes that are invalid in their charset; an error for
    ///   an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let object = try http.responseObject(for: response, data: data) { data in
            try http.text(data, response: response)
        }
        if object == nil, let data, data.isEmpty, !http.hasNoContent(response) { return "" }
        return object
    }
}

/// Finds the charset of a body, and converts it to UTF-8 for the parsers that need that.
extension HTTPResponseSerializer {
    /// The text of a body, without its byte-order mark.
    func text(_ data: Data, response: URLResponse?) throws -> String {
        try text(data, in: .ofText(data, label: response?.textEncodingName, otherwise: Charset(stringEncoding)), response)
    }

    /// The bytes of JSON: the body itself if it is UTF-8, otherwise converted.
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
