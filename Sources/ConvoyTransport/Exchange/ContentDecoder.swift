/// A decoder of all content codings of a body, which it decodes as it arrives, in bounded memory.
///
/// Unlike libcurl's decoding, it detects truncated encoded data, wherever the body was cut off, and applies the
/// expansion limit to every layer of stacked codings. A decoder decodes one body, and only one thread may use it at any
/// time.
final class ContentDecoder {
    /// A closure that receives decoded bytes, which are valid during the call. It returns false to suspend delivery of
    /// the bytes received so far. Delivery continues with bytes that arrive when nothing is pending.
    typealias Sink = (_ block: UnsafeRawBufferPointer) -> Bool

    /// The maximum number of stacked codings. curl has the same limit; servers use one coding.
    static let maximumLayerCount = 5
    /// The maximum number of decoded bytes delivered in one call.
    static let blockSize = 64 << 10

    /// The number of encoded bytes that have been decoded, excluding kept bytes.
    private(set) var encodedByteCount: Int64 = 0
    /// The number of decoded bytes produced.
    var decodedByteCount: Int64 { innermost.producedCount }

    private let innermost: DecodingLayer
    /// The encoded bytes that have not been decoded yet, starting at `keptStart`.
    private var kept: [UInt8] = []
    private var keptStart = 0
    /// Whether the sink's last call suspended delivery.
    private var isHeldBack = false
    private var isDecoding = false
    private var failure: DecodingFailure?

    /// Creates a decoder for a body.
    ///
    /// - Parameters:
    ///   - codings: The codings in the order in which they were applied: at least one, all of them supported.
    ///   - maximumExpansion: The maximum ratio of the decoded size to the encoded size, applied to bodies larger than 4
    ///     MiB; nil for no limit.
    /// - Throws: `.unknownCoding`, `.tooManyLayers` or `.noMemory`.
    init(_ codings: [ContentCoding], maximumExpansion: Double?) throws(DecodingFailure) {
        guard codings.count <= Self.maximumLayerCount else {
            throw DecodingFailure(coding: codings[0], reason: .tooManyLayers(codings.count))
        }
        let limit = ExpansionLimit(factor: maximumExpansion)
        var layer: DecodingLayer?
        for coding in codings.reversed() {
            layer = try DecodingLayer(coding, inside: layer, limit: limit)
        }
        guard let layer else { throw DecodingFailure(coding: .unknown("identity"), reason: .unknownCoding) }
        innermost = layer
    }

    /// Whether decoded bytes may be waiting for ``resume(into:)``.
    var hasPending: Bool {
        isHeldBack && failure == nil && (keptStart < kept.count || innermost.mayHaveMore)
    }

    /// Decodes bytes and delivers the result block by block.
    ///
    /// If the sink returns false, the rest of the input is copied and kept. While anything is pending, or if the sink
    /// itself calls this method, all input is kept and the sink is not called.
    ///
    /// - Throws: The error in the body, and the same error again in later calls. Bytes that were decoded before the
    ///   failure may or may not have been delivered.
    func decode(_ bytes: UnsafeRawBufferPointer, into sink: Sink) throws(DecodingFailure) {
        if let failure { throw failure }
        if isDecoding || hasPending {
            kept.append(contentsOf: bytes)
            return
        }
        let used = try run(bytes, into: sink)
        if used < bytes.count { kept.insert(contentsOf: bytes[used...], at: 0) }
        if !isHeldBack, !kept.isEmpty { try drain(into: sink) }
    }

    /// Resumes delivery after the sink suspended it. Does nothing if nothing is pending, or if the sink itself calls
    /// this.
    ///
    /// - Throws: See ``decode(_:into:)``.
    func resume(into sink: Sink) throws(DecodingFailure) {
        if let failure { throw failure }
        guard hasPending, !isDecoding else { return }
        try drain(into: sink)
    }

    /// Checks that the body is complete, after its last encoded byte. Call it when nothing is pending. It does not
    /// change the state.
    ///
    /// - Throws: `.endsEarly` unless the body is complete or empty; an earlier failure is thrown again.
    func finish() throws(DecodingFailure) {
        if let failure { throw failure }
        // If bytes are pending, the delivered body is incomplete.
        if hasPending { throw DecodingFailure(coding: innermost.coding, reason: .endsEarly) }
        guard encodedByteCount > 0, let coding = innermost.incompleteCoding else { return }
        throw DecodingFailure(coding: coding, reason: .endsEarly)
    }

    /// Decodes the kept bytes until the sink suspends delivery.
    private func drain(into sink: Sink) throws(DecodingFailure) {
        // Run at least once, because a layer may have output even without input.
        repeat {
            // The sink may append to `kept`.
            let bytes = kept
            let start = keptStart
            let used = try bytes.withUnsafeBufferPointer { bytes throws(DecodingFailure) in
                try run(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes)[start...]), into: sink)
            }
            keptStart += used
        } while !isHeldBack && keptStart < kept.count
        guard keptStart == kept.count else { return }
        kept = []
        keptStart = 0
    }

    /// Decodes until the input is used up or the sink suspends delivery. Returns the number of bytes used.
    private func run(_ bytes: UnsafeRawBufferPointer, into sink: Sink) throws(DecodingFailure) -> Int {
        // Allocate the block for each call, at a measured cost of 0.03 µs, so that a stalled body takes little memory.
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.blockSize, alignment: 16)
        defer { block.deallocate() }
        isDecoding = true
        defer { isDecoding = false }
        isHeldBack = false
        var wire = WireInput(bytes, usedCount: encodedByteCount)
        repeat {
            let count: Int
            do {
                count = try innermost.fill(block, from: &wire)
            } catch {
                encodedByteCount = wire.usedCount
                kept = []
                keptStart = 0
                failure = error
                throw error
            }
            encodedByteCount = wire.usedCount
            if count > 0 { isHeldBack = !sink(UnsafeRawBufferPointer(rebasing: block[..<count])) }
        } while !isHeldBack && (!wire.rest.isEmpty || innermost.mayHaveMore)
        return bytes.count - wire.rest.count
    }
}

/// The decoder of one coding of a body, with a buffer for input from the layer around it.
final class DecodingLayer {
    /// The size of the buffer between two layers.
    private static let bufferSize = 16 << 10

    let coding: ContentCoding
    private(set) var producedCount: Int64 = 0

    private let decoder: any StreamDecoder
    private let limit: ExpansionLimit
    /// The layer that provides the input; nil if this is the outermost layer.
    private let outer: DecodingLayer?
    private let buffer: UnsafeMutableRawBufferPointer
    private var unused = 0..<0
    /// Whether the last step filled its output, so that more output may be available without more input.
    private var mayHoldOutput = false

    init(_ coding: ContentCoding, inside outer: DecodingLayer?, limit: ExpansionLimit) throws(DecodingFailure) {
        self.coding = coding
        self.outer = outer
        self.limit = limit
        decoder = try coding.makeDecoder()
        buffer = .allocate(byteCount: outer == nil ? 0 : Self.bufferSize, alignment: 16)
    }

    deinit { buffer.deallocate() }

    /// The outermost incomplete coding, among this layer and those around it.
    var incompleteCoding: ContentCoding? {
        outer?.incompleteCoding ?? (decoder.isComplete ? nil : coding)
    }

    /// Whether more output may be available without more encoded bytes.
    var mayHaveMore: Bool {
        mayHoldOutput || !unused.isEmpty || outer?.mayHaveMore ?? false
    }

    /// Fills a block with decoded bytes, as far as the available input allows.
    ///
    /// Each layer pulls its input from the one around it, so that no layer is ahead of the next by more than a buffer.
    func fill(
        _ block: UnsafeMutableRawBufferPointer, from wire: inout WireInput
    ) throws(DecodingFailure) -> Int {
        var filled = 0
        while filled < block.count {
            let input = outer == nil ? wire.rest : UnsafeRawBufferPointer(rebasing: buffer[unused])
            if input.isEmpty, !mayHoldOutput {
                guard let outer else { break }
                unused = 0..<(try outer.fill(buffer, from: &wire))
                if unused.isEmpty { break }
                continue
            }
            let room = UnsafeMutableRawBufferPointer(rebasing: block[filled...])
            let step = try decoder.step(input, into: room)
            guard step.consumed > 0 || step.produced > 0 || input.isEmpty else {
                throw DecodingFailure(coding: coding, reason: .corrupt("the decoder makes no progress"))
            }
            if outer == nil { wire.use(step.consumed) } else { unused.removeFirst(step.consumed) }
            mayHoldOutput = step.produced == room.count
            producedCount += Int64(step.produced)
            filled += step.produced
            if limit.isExceeded(encoded: wire.usedCount, decoded: producedCount) {
                throw DecodingFailure(
                    coding: coding, reason: .expandsTooMuch(encoded: wire.usedCount, decoded: producedCount))
            }
        }
        return filled
    }
}

/// A step-by-step decoder for one coding.
protocol StreamDecoder: AnyObject {
    /// Whether the body may end after the input consumed so far.
    var isComplete: Bool { get }

    /// Decodes as much as fits.
    ///
    /// A step ends at the latest when the output is full or the input is used up. If it filled the output, more output
    /// may be available without more input. Given input and room for output, it consumes or produces at least one byte,
    /// or throws.
    ///
    /// - Parameters:
    ///   - input: The next bytes; empty to get output for which an earlier step had no room.
    ///   - output: The output buffer, which must not be empty.
    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep
}

/// The number of bytes that a decoding step consumed and produced.
struct DecodingStep {
    var consumed = 0
    var produced = 0
}

extension ContentCoding {
    /// Creates a decoder for this coding.
    func makeDecoder() throws(DecodingFailure) -> any StreamDecoder {
        switch self {
        case .gzip: try GzipDecoder()
        case .deflate: DeflateDecoder()
        case .brotli: try BrotliDecoder()
        case .zstd: try ZstdDecoder()
        case .unknown: throw DecodingFailure(coding: self, reason: .unknownCoding)
        }
    }
}

/// A limit on the ratio of a body's decoded size to its encoded size.
struct ExpansionLimit {
    /// The size up to which any body is accepted, because repetitive text of that size may compress a thousandfold.
    static let allowance: Int64 = 4 << 20

    /// The maximum ratio; nil for no limit. NaN, 0 or a negative number allows nothing beyond the allowance.
    let factor: Double?

    func isExceeded(encoded: Int64, decoded: Int64) -> Bool {
        guard decoded > Self.allowance, let factor else { return false }
        return !(Double(decoded) <= factor * Double(max(1, encoded)))
    }
}

/// The encoded bytes passed to a chain of layers, and the total number that it has used.
struct WireInput {
    var rest: UnsafeRawBufferPointer
    private(set) var usedCount: Int64

    init(_ bytes: UnsafeRawBufferPointer, usedCount: Int64) {
        rest = bytes
        self.usedCount = usedCount
    }

    mutating func use(_ count: Int) {
        rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        usedCount += Int64(count)
    }
}
