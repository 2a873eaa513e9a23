/// A value that is decoded from a string and encoded as its description.
package protocol TextCodable: Codable, CustomStringConvertible {
    /// Creates the value from its text, or throws an error that describes why the text is invalid.
    init(decoding text: String) throws
}

extension TextCodable {
    /// Decodes the value from a string.
    ///
    /// - Throws: `DecodingError.dataCorrupted` if the string is invalid.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        do {
            try self.init(decoding: text)
        } catch {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "\(error)")
        }
    }

    /// Encodes the value as a string.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
