import ConvoySupport
import Foundation
import FoundationNetworking

/// Which encoding a body is in, and the body in UTF-8 for the parsers that want it so.
extension HTTPResponseSerializer {
    /// The encoding that the response names or, where it names none that is known, ``stringEncoding``.
    func encoding(of response: URLResponse?) -> String.Encoding {
        guard let name = response?.textEncodingName, !name.isEmpty else { return stringEncoding }
        // What nearly every response says, without the trimming and lowercasing that the rest needs.
        if name == "utf-8" || name == "UTF-8" { return .utf8 }
        return Charset.encoding(named: name) ?? stringEncoding
    }

    /// The text of a body, without its byte-order mark.
    func text(_ data: Data, response: URLResponse?) throws -> String {
        guard let text = String(data: data, encoding: Charset.unicodeMark(of: data) ?? encoding(of: response)) else {
            throw ResponseTextError.undecodable(data, response)
        }
        return text.unicodeScalars.first == "\u{FEFF}" ? String(text.unicodeScalars.dropFirst()) : text
    }

    /// The body itself where it is UTF-8 (or ASCII), and a translation only where it is not.
    func utf8(_ data: Data, response: URLResponse?) throws -> Data {
        // A byte-order mark is surer than a header that may be no more than a server's default.
        let encoding = Charset.unicodeMark(of: data) ?? encoding(of: response)
        if encoding == .utf8 || encoding == .ascii { return data }
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
