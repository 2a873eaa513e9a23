import Foundation

/// Splits bytes into lines, wherever the bytes are divided. A line ends with LF, CR or CR LF.
///
/// A CR ends its line at once; whether an LF follows is seen when the next byte is there.
struct LineSplitter {
    let maximumLength: Int
    private var bytes: [UInt8] = []
    private var position = 0
    /// The beginning of a line of which the rest is not there yet.
    private var begun: [UInt8] = []
    /// Whether an LF that comes next belongs to the CR before it.
    private var skipsLineFeed = false

    init(maximumLength: Int) { self.maximumLength = maximumLength }

    /// Adds bytes; all earlier ones have been split.
    mutating func add(_ chunk: Data) {
        bytes = [UInt8](chunk)
        position = 0
    }

    /// The next whole line; nil until more bytes are there.
    mutating func next() throws(ResponseBytesError) -> String? {
        if skipsLineFeed, position < bytes.count {
            skipsLineFeed = false
            if bytes[position] == 0x0A { position += 1 }
        }
        let start = position
        guard let end = bytes[start...].firstIndex(where: { $0 == 0x0A || $0 == 0x0D }) else {
            try checkLength(begun.count + bytes.count - start)
            begun += bytes[start...]
            (bytes, position) = ([], 0)
            return nil
        }
        try checkLength(begun.count + end - start)
        skipsLineFeed = bytes[end] == 0x0D
        position = end + 1
        guard !begun.isEmpty else { return String(decoding: bytes[start..<end], as: UTF8.self) }
        defer { begun = [] }
        return String(decoding: begun + bytes[start..<end], as: UTF8.self)
    }

    /// The last line, if it has no end.
    mutating func finish() -> String? {
        guard !begun.isEmpty else { return nil }
        defer { begun = [] }
        return String(decoding: begun, as: UTF8.self)
    }

    private func checkLength(_ length: Int) throws(ResponseBytesError) {
        if length > maximumLength { throw .lineTooLong(limit: maximumLength) }
    }
}
