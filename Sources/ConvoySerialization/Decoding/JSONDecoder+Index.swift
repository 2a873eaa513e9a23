import Foundation

extension JSONDecoder {
    /// Decodes as `decode(_:from:)` does, with the same values and errors, in a third of the time.
    ///
    /// What is not plain JSON in UTF-8 is Foundation's, which accepts some of it, and has the errors for the rest; so is
    /// everything if the decoder is of a subclass, or allows JSON5.
    package func decodeIndexed<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        try decodePlain(type, from: data, maximumDepth: 512) ?? decode(type, from: data)
    }

    /// Nil, before anything of the value has been decoded, for what only `decode(_:from:)` decodes, and for a text that is
    /// nested deeper than the limit.
    func decodePlain<Value: Decodable>(_ type: Value.Type, from data: Data, maximumDepth: Int) throws -> Value? {
        guard let options = JSONDecodingOptions(self) else { return nil }
        return try data.withUnsafeBytes { bytes in
            // Foundation's own limit is 512.
            guard var index = JSONIndex(bytes, maximumDepth: min(maximumDepth, 512), options: options) else { return nil }
            defer {
                // An initializer may have kept its decoder, or a container.
                if !isKnownUniquelyReferenced(&index) { index.keepBytes() }
            }
            do {
                return try JSONValueDecoder(index).decode(type, at: 0, nil)
            } catch is JSONNumberMismatch {
                throw DecodingError.dataCorrupted(
                    .init(codingPath: [], debugDescription: "The given data was not valid JSON."))
            }
        }
    }
}

/// The settings of a `JSONDecoder`, as they are when a document is decoded.
struct JSONDecodingOptions {
    let dates: JSONDecoder.DateDecodingStrategy
    let data: JSONDecoder.DataDecodingStrategy
    let floats: JSONDecoder.NonConformingFloatDecodingStrategy
    let keys: JSONDecoder.KeyDecodingStrategy
    /// Whether keys are other than in the text.
    let convertsKeys: Bool
    let userInfo: [CodingUserInfoKey: Any]

    /// Nil for a decoder that does more than its settings say.
    init?(_ decoder: JSONDecoder) {
        guard type(of: decoder) == JSONDecoder.self, !decoder.allowsJSON5 else { return nil }
        let userInfo = decoder.userInfo
        // The setting is kept there.
        guard userInfo.isEmpty || !decoder.assumesTopLevelDictionary else { return nil }
        self.userInfo = userInfo
        dates = decoder.dateDecodingStrategy
        data = decoder.dataDecodingStrategy
        floats = decoder.nonConformingFloatDecodingStrategy
        keys = decoder.keyDecodingStrategy
        if case .useDefaultKeys = keys { convertsKeys = false } else { convertsKeys = true }
    }
}
