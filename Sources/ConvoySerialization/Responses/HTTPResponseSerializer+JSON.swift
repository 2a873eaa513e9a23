import ConvoySupport
import Foundation
import FoundationNetworking

/// The checks of the JSON serializers before their parser runs.
extension HTTPResponseSerializer {
    /// The bytes to parse, in UTF-8 and within the limits; nil for a body of one space, which Rails sends for
    /// `head :ok`.
    func json(_ data: Data, response: URLResponse?) throws -> Data? {
        try checkedJSON(try jsonText(data, response: response), response: response)
    }

    /// The bytes in UTF-8.
    func jsonText(_ data: Data, response: URLResponse?) throws -> Data {
        try fromWideText(data) ?? utf8(data, response: response)
    }

    /// The bytes, if they are within the limits; nil for one space.
    func checkedJSON(_ bytes: Data, response: URLResponse?) throws -> Data? {
        if HTTPResponseSerializer.isOneSpace(bytes) { return nil }
        switch JSONScanner.scan(bytes, maximumDepth: limits.maximumNestingDepth) {
        case .fine: return bytes
        case .tooDeep: throw limits.nestingError(response)
        case .trailingComma(let offset):
            throw NSError(
                domain: NSCocoaErrorDomain, code: CocoaError.propertyListReadCorrupt.rawValue,
                userInfo: [NSDebugDescriptionErrorKey: "Trailing comma before character \(offset)."])
        }
    }

    /// The tree of bytes that have been checked.
    func tree(of bytes: Data, _ response: URLResponse?) throws(JSONSyntaxError) -> JSON {
        do throws(JSONSyntaxError) {
            return try JSON(
                parsing: bytes, maximumDepth: limits.maximumNestingDepth,
                rejectsDuplicateKeys: limits.rejectsDuplicateKeys)
        } catch {
            throw error.naming(response?.url)
        }
    }

    /// Throws for a repeated key, if the limits say so: for parsers that do not know of it.
    func checkKeys(of data: Data?, _ response: URLResponse?) throws {
        guard limits.rejectsDuplicateKeys, let data, !data.isEmpty, !hasNoContent(response) else { return }
        try limits.checkSize(of: data, response: response)
        if let bytes = try json(data, response: response) { _ = try tree(of: bytes, response) }
    }

    /// UTF-16 or UTF-32 without a byte-order mark, converted to UTF-8; nil for anything else. Formats that begin with
    /// ASCII show it by zeros among their first four bytes (RFC 4627, section 3). The parsers would detect it too, but
    /// only after the limits were checked on the wrong encoding.
    func fromWideText(_ data: Data) -> Data? {
        guard data.count >= 2, data[data.startIndex] == 0 || data[data.startIndex + 1] == 0 else { return nil }
        let head = Array(data.prefix(4))
        guard head.count >= 2, Charset.unicodeMark(of: data) == nil else { return nil }
        let zeros = head.map { $0 == 0 }
        let encoding: String.Encoding? =
            switch (zeros[0], zeros[1], zeros.count > 2 ? zeros[2] : nil) {
            case (true, true, _): .utf32BigEndian
            case (false, true, true): .utf32LittleEndian
            case (true, false, _): .utf16BigEndian
            case (false, true, _): .utf16LittleEndian
            default: nil
            }
        return encoding.flatMap { String(data: data, encoding: $0) }.map { Data($0.utf8) }
    }
}
