/// Why an encoded body could not be decoded.
struct DecodingFailure: Error, Hashable {
    enum Reason: Hashable {
        /// What came is not in this coding, or was damaged; in the words of the library that decodes it.
        case corrupt(String)
        /// All bytes have come, and they are only a part.
        case endsEarly
        /// More came out than the limit allows for so many bytes from the wire.
        case expandsTooMuch(encoded: Int64, decoded: Int64)
        /// More codings, one around the other, than any server has reason for.
        case tooManyLayers(Int)
        /// A coding that nothing here can undo.
        case unknownCoding
        /// The system has no memory for the decoder.
        case noMemory
    }

    /// The coding that failed. Of several, the one that noticed.
    let coding: ContentCoding
    let reason: Reason
}

extension DecodingFailure: CustomStringConvertible {
    /// One sentence for the user.
    var description: String {
        switch reason {
        case .corrupt(let words): "The body is not valid \(coding): \(words)."
        case .endsEarly: "The body ends before its \(coding) data does."
        case .expandsTooMuch(let encoded, let decoded):
            "\(encoded) bytes have become \(decoded) by decoding \(coding): more than the limit allows."
        case .tooManyLayers(let count):
            "The body is encoded \(count) times, which is more than \(ContentDecoder.maximumLayerCount)."
        case .unknownCoding: "The body's coding \(coding) is not known."
        case .noMemory: "There is no memory for decoding \(coding)."
        }
    }
}
