import ConvoySupport
import Foundation
import FoundationNetworking

/// Decodes the body as text, in the charset that the response names or else in `stringEncoding`.
///
/// AFNetworking has no counterpart; its users decode the data of an `AFHTTPResponseSerializer`. By default any content
/// type is acceptable. A byte-order mark decides the encoding and is not part of the text.
public struct StringResponseSerializer: HTTPResponseSerialization {
    /// Which responses are acceptable, and the limits.
    public var http = HTTPResponseSerializer()

    /// A serializer that accepts any content type.
    public init() {}

    /// A `String`; nil for 204, 205 and no body at all, empty for an empty body.
    ///
    /// - Throws: as ``HTTPResponseSerializer/validate(_:data:)``; -1016 for bytes that cannot be decoded; an error for
    ///   an exceeded limit.
    public func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        let object = try http.responseObject(for: response, data: data) { data in
            try http.text(data, response: response)
        }
        if object == nil, let data, data.isEmpty, !http.hasNoContent(response) { return "" }
        return object
    }
}

/// Finds the encoding of a body, and converts it to UTF-8 for the parsers that need that.
extension HTTPResponseSerializer {
    /// The charset that the response names; ``stringEncoding`` if it names none or an unknown one.
    private func charset(of response: URLResponse?) -> Charset {
        guard let name = response?.textEncodingName, !name.isEmpty else { return Charset(stringEncoding) }
        // The most common name, without trimming and look-up.
        if name == "utf-8" || name == "UTF-8" { return .utf8 }
        return Charset(named: name) ?? Charset(stringEncoding)
    }

    /// The text of a body, without its byte-order mark.
    func text(_ data: Data, response: URLResponse?) throws -> String {
        guard let text = (Charset.unicodeMark(of: data) ?? charset(of: response)).text(of: data) else {
            throw ResponseTextError.undecodable(data, response)
        }
        return text
    }

    /// The body itself if it is UTF-8 (or ASCII), otherwise converted.
    func utf8(_ data: Data, response: URLResponse?) throws -> Data {
        // A byte-order mark is more reliable than a header, which may be just a server's default.
        let charset = Charset.unicodeMark(of: data) ?? charset(of: response)
        if charset.isUTF8 { return data }
        return Data(try text(data, response: response).utf8)
    }
}

enum ResponseTextError {
    /// AFNetworking's error for text that cannot be decoded. (AFNetworking itself does not report bytes that do not fit
    /// the encoding.)
    static func undecodable(_ data: Data, _ response: URLResponse?) -> NSError {
        NSError.response(
            NSURLErrorCannotDecodeContentData, "Data failed decoding as a UTF-8 string", response, data: data
        ).adding("Could not decode string: \(data.count) bytes", for: NSLocalizedFailureReasonErrorKey)
    }
}
