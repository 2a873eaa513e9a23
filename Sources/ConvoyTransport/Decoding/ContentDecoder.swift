/// Decodes all content codings of a body as it arrives, in bounded memory.
///
/// Unlike libcurl's decoding, it detects a body that ends before its encoded data does, at whatever byte it was cut,
/// and applies the expansion limit to every layer of stacked codings. Used by one thread at a time, for one body.
final class ContentDecoder {
    /// Takes decoded bytes, which are valid during the call. Returns false if no more are wanted now. That applies to
    /// the bytes received so far: bytes that arrive when nothing is pending are decoded and delivered again.
    typealias Sink = (_ block: UnsafeRawBufferPointer) -> Bool

    /// How many stacked codings a body may have. The same limit as curl's; servers use one.
    static let maximumLayerCount = 5
    /// How many decoded bytes are delivered at once, at most.
    static let blockSize = 64 << 10

    /// How many bytes from the wire have been decoded, without those that are kept.
    private(set) var encodedByteCount: Int64 = 0
    /// How many decoded bytes have been produced.
    var decodedByteCount: Int64 { innermost.producedCount }

    private let innermost: DecodingLayer
    /// Bytes from the wire that are not decoded yet, from `keptStart` on.
    private var kept: [UInt8] = []
    private var keptStart = 0
    /// Whether the sink's last answer was that no more is wanted.
    private var isHeldBack = false
    private var isDecoding = false
    private var failure: DecodingFailure?

    /// Makes a decoder for a body.
    ///
    /// - Parameters:
    ///   - codings: in the order in which they were applied, all known, at least one.
    ///   - maximumExpansion: how many times larger than its encoded form the body may become, if it exceeds 4 MiB; nil
    ///     for no limit.
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

    /// Decodes bytes from the wire and delivers the result block by block.
    ///
    /// If the sink returns false, the rest of the input is copied and kept. While anything is pending, or if the sink
    /// itself calls this, all input is kept and the sink is not called.
    ///
    /// - Throws: the error in the body, again on each call after a failure. Bytes that were decoded before the failure
    ///   may or may not have been delivered.
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

    /// Continues after the sink wanted no more. Does nothing if nothing is pending, or if the sink itself calls it.
    ///
    /// - Throws: see ``decode(_:into:)``.
    func resume(into sink: Sink) throws(DecodingFailure) {
        if let failure { throw failure }
        guard hasPending, !isDecoding else { return }
        try drain(into: sink)
    }

    /// Checks that the body is complete, when no more comes from the wire. To be called when nothing is pending.
    /// Changes nothing.
    ///
    /// - Throws: `.endsEarly` unless the body is complete or has no byte at all; an earlier failure again.
    func finish() throws(DecodingFailure) {
        if let failure { throw failure }
        // If something is pending, the delivered body is not complete either.
        if hasPending { throw DecodingFailure(coding: innermost.coding, reason: .endsEarly) }
        guard encodedByteCount > 0, let coding = innermost.incompleteCoding else { return }
        throw DecodingFailure(coding: coding, reason: .endsEarly)
    }

    /// Decodes the kept bytes, until the sink wants no more.
    private func drain(into sink: Sink) throws(DecodingFailure) {
        // At least once: a layer may hold output even without input.
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

    /// Decodes until the input is used up or the sink wants no more. Returns how many bytes were used.
    private func run(_ bytes: UnsafeRawBufferPointer, into sink: Sink) throws(DecodingFailure) -> Int {
        // The block is allocated for each call, at a measured cost of 0.03 µs, so that a stalled body takes little
        // memory.
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

/// The decoder of one coding of a body, with a buffer of input from the layer around it.
final class DecodingLayer {
    /// The size of the buffer between two layers.
    private static let bufferSize = 16 << 10

    let coding: ContentCoding
    private(set) var producedCount: Int64 = 0

    private let decoder: any StreamDecoder
    private let limit: ExpansionLimit
    /// The layer that provides the input; nil for the wire.
    private let outer: DecodingLayer?
    private let buffer: UnsafeMutableRawBufferPointer
    private var unused = 0..<0
    /// Whether the last step filled its output, so that there may be more output without more input.
    private var mayHoldOutput = false

    init(_ coding: ContentCoding, inside outer: DecodingLayer?, limit: ExpansionLimit) throws(DecodingFailure) {
        self.coding = coding
        self.outer = outer
        self.limit = limit
        decoder = try coding.makeDecoder()
        buffer = .allocate(byteCount: outer == nil ? 0 : Self.bufferSize, alignment: 16)
    }

    deinit { buffer.deallocate() }

    /// The outermost coding, of this layer and those around it, whose data is not complete.
    var incompleteCoding: ContentCoding? {
        outer?.incompleteCoding ?? (decoder.isComplete ? nil : coding)
    }

    /// Whether there may be more output without more input from the wire.
    var mayHaveMore: Bool {
        mayHoldOutput || !unused.isEmpty || outer?.mayHaveMore ?? false
    }

    /// Fills a block with decoded bytes, as far as the bytes from the wire allow.
    ///
    /// Each layer pulls its input from the one around it, so that none is ahead of the next by more than a buffer.
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
                throw DecodingFailure(coding: coding, reason: .corrupt("its decoder makes no progress"))
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

/// Decodes one coding, step by step.
protocol StreamDecoder: AnyObject {
    /// Whether the body may end after what has been consumed.
    var isComplete: Bool { get }

    /// Decodes as much as fits.
    ///
    /// It stops at the latest when the output is full or the input is used up. If the output was filled, there may be
    /// more of it without more input. Given input and room for output, it consumes or produces at least one byte, or
    /// throws.
    ///
    /// - Parameters:
    ///   - input: the next bytes; empty to get output for which an earlier step had no room.
    ///   - output: not empty.
    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep
}

/// The bytes that one step of a decoder has consumed and produced.
struct DecodingStep {
    var consumed = 0
    var produced = 0

    static func + (one: DecodingStep, other: DecodingStep) -> DecodingStep {
        DecodingStep(consumed: one.consumed + other.consumed, produced: one.produced + other.produced)
    }
}

extension ContentCoding {
    /// A new decoder for this coding.
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

/// Limits how much larger than its encoded form a body may become.
struct ExpansionLimit {
    /// A body of up to this many bytes is never too large: repetitive text of that size may compress a thousandfold.
    static let allowance: Int64 = 4 << 20

    /// The largest ratio; nil for no limit. NaN, 0 or a negative number allows nothing beyond the allowance.
    let factor: Double?

    func isExceeded(encoded: Int64, decoded: Int64) -> Bool {
        guard decoded > Self.allowance, let factor else { return false }
        return !(Double(decoded) <= factor * Double(max(1, encoded)))
    }
}

/// The bytes from the wire that are given to a chain of layers, and how many it has used in all.
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
