import ConvoySupport
import Foundation
import FoundationXML

/// The conversion of XML documents to UTF-8.
///
/// The parser receives only valid UTF-8 without zero bytes. On Linux, Foundation's parser crashes if an element's name
/// is invalid (`<` followed by a byte from 0x80 on), and a different encoding could hide forbidden content.
package enum XMLEncoding {
    /// Returns the document in the form required by the parser.
    ///
    /// A byte-order mark takes precedence over the document's declaration, and the declaration over the charset of the
    /// response. (RFC 7303, section 3, prefers the charset to the declaration, but it is often just a server's
    /// default.) A declaration that does not match the result is removed.
    ///
    /// - Parameters:
    ///   - label: The charset specified by the response, if any.
    ///   - fallback: The charset of a document that does not specify a charset in any of these ways.
    /// - Throws: An error in `XMLParser.errorDomain` if the encoding is unknown, or if the bytes are invalid in it.
    package static func utf8(of data: Data, label: String?, otherwise fallback: Charset = .utf8) throws -> Data {
        let mark = Charset.unicodeMark(of: data)
        // The XML declaration is removed below after a byte-order mark, as it is after a conversion.
        var document = mark?.isUTF8 == true ? Data(data.dropFirst(3)) : data
        if mark == nil, let declared = declaredEncoding(in: data) {
            guard let charset = Charset(named: declared) else {
                throw XMLInspection.error(.unknownEncodingError, "The document's encoding is unknown.")
            }
            // If the bytes do not begin with `<?xml` in the declared encoding, the declaration is wrong.
            document = try converted(data, from: charset)
            guard document.starts(with: Array("<?xml".utf8)) else { throw misfit(charset) }
        } else if mark?.isUTF8 != true {
            let wide = mark ?? Charset.wideASCII(in: data)
            document = try converted(data, from: wide ?? .ofText(data, label: label, otherwise: fallback))
        }
        guard isText(document) else {
            throw XMLInspection.error(.invalidCharacterError, "The document is not text.")
        }
        guard let declared = declaredEncoding(in: document), document != data || Charset(named: declared)?.isUTF8 != true,
            let end = document.range(of: Data("?>".utf8))
        else { return document }
        return Data(document[end.upperBound...])
    }

    private static func converted(_ data: Data, from charset: Charset) throws -> Data {
        if charset.isUTF8 { return data }
        guard let text = charset.text(of: data) else { throw misfit(charset) }
        return Data(text.utf8)
    }

    private static func misfit(_ charset: Charset) -> NSError {
        XMLInspection.error(.invalidEncodingError, "The document cannot be decoded as \(charset.name).")
    }

    /// Returns the name in `<?xml … encoding="name"?>`, if the document begins with this declaration in ASCII.
    private static func declaredEncoding(in data: Data) -> String? {
        guard data.starts(with: Array("<?xml".utf8)) else { return nil }
        let declaration = String(decoding: data.prefix(200).prefix { $0 != UInt8(ascii: ">") }, as: UTF8.self)
        guard let word = declaration.range(of: "encoding") else { return nil }
        return String(
            declaration[word.upperBound...].drop { " \t\r\n=\"'".contains($0) }.prefix { !"\"' ?".contains($0) })
    }

    private static func isText(_ data: Data) -> Bool {
        guard Charset.isUTF8(data) else { return false }
        return data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            bytes.baseAddress.map { memchr($0, 0, bytes.count) == nil } ?? true
        }
    }
}
