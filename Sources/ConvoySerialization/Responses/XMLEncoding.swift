import ConvoySupport
import Foundation
import FoundationNetworking
import FoundationXML

/// Which encoding an XML document is in, and the document in UTF-8.
///
/// The parser is given nothing but valid UTF-8 without zeros. Foundation's crashes on Linux when an element's name is
/// invalid (`<` and a byte from 0x80 on), and what the hardening looks for cannot hide in another encoding.
enum XMLEncoding {
    /// The document as the parser should get it.
    ///
    /// A byte-order mark decides, then the document's own declaration, then the charset of the response (RFC 7303,
    /// section 3).
    ///
    /// - Throws: in `XMLParser.errorDomain` for an encoding that is unknown and bytes that do not fit it.
    static func utf8(of data: Data, for serializer: HTTPResponseSerializer, response: URLResponse?) throws -> Data {
        let mark = Charset.unicodeMark(of: data)
        let declared = mark == nil ? declaredEncoding(in: data) : nil
        var document = data
        if let declared {
            guard let encoding = Charset.encoding(named: declared) else { throw error(.unknownEncodingError) }
            if encoding != .utf8 && encoding != .ascii {
                guard let text = String(data: data, encoding: encoding) else { throw error(.invalidEncodingError) }
                document = Data(text.utf8)
            }
        } else if mark != .utf8 {
            document = try serializer.fromWideText(data) ?? serializer.utf8(data, response: response)
        }
        guard isText(document) else { throw error(.invalidCharacterError) }
        // What it declares is no longer true of a translation.
        guard document != data, declaredEncoding(in: document) != nil,
            let end = document.range(of: Data("?>".utf8))
        else { return document }
        return Data(document[end.upperBound...])
    }

    /// The name in `<?xml … encoding="name"?>`, where the document begins with that in ASCII.
    private static func declaredEncoding(in data: Data) -> String? {
        guard data.starts(with: Array("<?xml".utf8)) else { return nil }
        let declaration = String(decoding: data.prefix(200).prefix { $0 != UInt8(ascii: ">") }, as: UTF8.self)
        guard let word = declaration.range(of: "encoding") else { return nil }
        return String(
            declaration[word.upperBound...].drop { " \t\r\n=\"'".contains($0) }.prefix { !"\"' ?".contains($0) })
    }

    private static func isText(_ data: Data) -> Bool {
        let span = data.span
        guard (try? UTF8Span(validating: span)) != nil else { return false }
        return data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            bytes.baseAddress.map { memchr($0, 0, bytes.count) == nil } ?? true
        }
    }

    private static func error(_ code: XMLParser.ErrorCode) -> NSError {
        NSError(domain: XMLParser.errorDomain, code: code.rawValue)
    }
}
