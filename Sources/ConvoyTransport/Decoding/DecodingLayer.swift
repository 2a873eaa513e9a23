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
