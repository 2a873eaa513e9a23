import Foundation

/// One value or key of an indexed document.
struct JSONToken {
    enum Kind: UInt8 {
        case null, `true`, `false`, number, string, array, object
    }

    var kind: Kind
    /// Of a string: it has no escapes. Of a number: it has neither a fraction nor an exponent.
    var isSimple = false
    /// Of a string: all its bytes are ASCII.
    var isASCII = true
    /// The offset of the first byte of a number, or of a string within its quotes. Of a container that is still open,
    /// the token of the container around it.
    var start: UInt32 = 0
    /// How many bytes a number or string has, how many elements an array, how many members an object.
    var count: UInt32 = 0
    /// The token after the value. Of a key, whose value always follows it, the ``JSONIndex/fingerprint(of:)``.
    var next: UInt32 = 0
}

/// The positions of all values of a JSON text, as a flat array of tokens in the order of the text.
///
/// A container stands before what it contains; an object is followed by keys and values in turn. Texts of strings and
/// numbers stay where they are until a value is asked for. A text is indexed only if it is valid to the letter
/// (RFC 8259, UTF-8), so that everything in it can be decoded without another check.
///
/// It points into the bytes that it was made from. If it outlives these, ``keepBytes()`` copies them.
final class JSONIndex {
    private(set) var bytes: UnsafePointer<UInt8>
    private let length: Int
    private var ownsBytes = false
    private let tokens: JSONTokens
    /// The position of a null that is not in the text, for what is missing there.
    let null: Int
    let options: JSONDecodingOptions

    /// Nil for a text that is not plain JSON, or nested deeper than the limit.
    init?(_ text: UnsafeRawBufferPointer, maximumDepth: Int, options: JSONDecodingOptions) {
        // The offsets are of 32 bits.
        guard let start = text.baseAddress, text.count < 1 << 31 else { return nil }
        bytes = start.assumingMemoryBound(to: UInt8.self)
        length = text.count
        self.options = options
        var indexer = JSONIndexer(bytes, count: length, maximumDepth: maximumDepth)
        let isValid = indexer.index()
        null = indexer.tokens.count
        indexer.append(JSONToken(kind: .null))
        tokens = indexer.tokens
        guard isValid else { return nil }
    }

    deinit {
        tokens.start.deallocate()
        if ownsBytes { bytes.deallocate() }
    }

    /// Copies the bytes, which are about to go.
    func keepBytes() {
        guard !ownsBytes else { return }
        let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: length)
        copy.initialize(from: bytes, count: length)
        bytes = UnsafePointer(copy)
        ownsBytes = true
    }

    @inline(__always) subscript(token: Int) -> JSONToken { tokens.start[token] }

    /// The bytes of a number, or of a string within its quotes.
    @inline(__always) func text(of token: JSONToken) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: bytes + Int(token.start), count: Int(token.count))
    }

    /// The length and three bytes of a key in one number, which tells nearly all keys apart.
    @inline(__always) static func fingerprint(of text: UnsafeBufferPointer<UInt8>) -> UInt32 {
        guard let start = text.baseAddress, !text.isEmpty else { return 0 }
        let (first, middle, last) = (start[0], start[text.count / 2], start[text.count - 1])
        return UInt32(truncatingIfNeeded: text.count) << 24 | UInt32(first) << 16 | UInt32(middle) << 8 | UInt32(last)
    }
}

/// The growing array of tokens. Its owner frees it.
struct JSONTokens {
    private(set) var start: UnsafeMutablePointer<JSONToken>
    private var capacity: Int
    private(set) var count = 0

    init(capacity: Int) {
        self.capacity = capacity
        start = .allocate(capacity: capacity)
    }

    @inline(__always) mutating func append(_ token: JSONToken) {
        if count == capacity { grow() }
        (start + count).initialize(to: token)
        count += 1
    }

    @inline(never) private mutating func grow() {
        let larger = UnsafeMutablePointer<JSONToken>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: start, count: count)
        start.deallocate()
        start = larger
        capacity *= 2
    }
}
