import ConvoySupport
import Foundation
import FoundationNetworking

/// Which encoding a body is in, and the body in UTF-8 for the parsers that want it so.
extension HTTPResponseSerializer {
    /// The charset that the response names or, where it names none that is known, ``stringEncoding``.
    private func charset(of response: URLResponse?) -> Charset {
        guard let name = response?.textEncodingName, !name.isEmpty else { return Charset(stringEncoding) }
        // What nearly every response says, without the trimming and looking up that the rest needs.
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

    /// The body itself where it is UTF-8 (or ASCII), and a translation only where it is not.
    func utf8(_ data: Data, response: URLResponse?) throws -> Data {
        // A byte-order mark is surer than a header that may be no more than a server's default.
        let charset = Charset.unicodeMark(of: data) ?? charset(of: response)
        if charset.isUTF8 { return data }
        return Data(try text(data, response: response).utf8)
    }
}

enum ResponseTextError {
    /// AFNetworking's error for text that cannot be read. It makes none where the bytes do not fit the encoding.
    static func undecodable(_ data: Data, _ response: URLResponse?) -> NSError {
        NSError.response(
            NSURLErrorCannotDecodeContentData, "Data failed decoding as a UTF-8 string", response, data: data
        ).adding("Could not decode string: \(data.count) bytes", for: NSLocalizedFailureReasonErrorKey)
    }
}
