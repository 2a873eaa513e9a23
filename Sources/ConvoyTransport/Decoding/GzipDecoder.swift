/// Decodes gzip (RFC 1952): one or more members, each with its checksum and length verified.
///
/// Other bytes after the last member are ignored, as by browsers: servers pad with zeros, and scripts print after the
/// page was compressed. They are not part of the body, whose end the trailer marks. Bytes that begin like a member (RFC
/// 1952, section 2.3.1) are one, and must be complete.
final class GzipDecoder: StreamDecoder {
    private enum Position {
        case inMember
        case afterMember
        /// After a member, and the first byte of a possible next one.
        case afterFirstByte
        case afterEverything
    }

    private var position = Position.inMember
    private let inflater: Inflater

    private static let identification: (UInt8, UInt8) = (0x1F, 0x8B)

    init() throws(DecodingFailure) {
        inflater = try Inflater(.gzip, coding: .gzip)
    }

    var isComplete: Bool {
        switch position {
        case .inMember, .afterFirstByte: false
        case .afterMember, .afterEverything: true
        }
    }

    func step(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(DecodingFailure) -> DecodingStep {
        switch position {
        case .inMember:
            let step = try inflater.step(input, into: output)
            if inflater.hasEnded { position = .afterMember }
            return step
        case .afterMember:
            guard let first = input.first else { return DecodingStep() }
            position = first == Self.identification.0 ? .afterFirstByte : .afterEverything
            return DecodingStep(consumed: 1)
        case .afterFirstByte:
            guard let second = input.first else { return DecodingStep() }
            guard second == Self.identification.1 else {
                position = .afterEverything
                return DecodingStep(consumed: 1)
            }
            position = .inMember
            inflater.startOver()
            return try withUnsafeBytes(of: Self.identification) { header throws(DecodingFailure) in
                var step = try inflater.step(header, into: output)
                step.consumed = 1
                return step
            }
        case .afterEverything:
            return DecodingStep(consumed: input.count)
        }
    }
}
