import Foundation

/// A whole body as a list of pieces to be sent one after the other.
struct MultipartLayout {
    let pieces: [MultipartPart.Body]
    /// The exact length in bytes.
    let length: Int64

    /// - Throws: if the sum of the lengths exceeds 64 bits.
    init(parts: [MultipartPart], boundary: String) throws {
        var pieces: [MultipartPart.Body] = []
        var pending = ""
        for (index, part) in parts.enumerated() {
            pending += index == 0 ? "--\(boundary)\r\n" : "\r\n--\(boundary)\r\n"
            for (name, value) in part.headers { pending += "\(name): \(value)\r\n" }
            pending += "\r\n"
            pieces.append(.data(Data(pending.utf8)))
            pieces.append(part.body)
            pending = ""
        }
        if !parts.isEmpty { pieces.append(.data(Data("\r\n--\(boundary)--\r\n".utf8))) }

        try self.init(pieces: pieces)
    }

    /// - Throws: when the sum of the lengths is no 64-bit number.
    init(pieces: [MultipartPart.Body]) throws {
        var length: Int64 = 0
        for piece in pieces {
            let sum = length.addingReportingOverflow(piece.length)
            guard !sum.overflow else { throw NSError.request(.invalidPart, "The body is too long to be counted.") }
            length = sum.partialValue
        }
        self.pieces = pieces
        self.length = length
    }
}
