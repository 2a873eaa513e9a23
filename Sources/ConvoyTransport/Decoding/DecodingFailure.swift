/// Why an encoded body could not be decoded.
struct DecodingFailure: Error, Hashable {
    enum Reason: Hashable {
        /// The bytes are not in this coding, or are damaged, with the message of the decoding library.
        case corrupt(String)
        /// The body ended before its encoded data did.
        case endsEarly
        /// The decoded bytes exceed the limit for this many bytes from the wire.
        case expandsTooMuch(encoded: Int64, decoded: Int64)
        /// More stacked codings than any server has reason to use.
        case tooManyLayers(Int)
        /// A coding that cannot be decoded here.
        case unknownCoding
        /// There is no memory for the decoder.
        case noMemory
    }

    /// The coding that failed; of several, the one that detected the failure.
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
