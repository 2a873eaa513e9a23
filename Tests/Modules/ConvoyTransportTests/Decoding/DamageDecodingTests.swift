import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// Tests that bodies that are damaged, or not encoded as declared, cause an error and never a crash.
@Suite struct DamageDecodingTests {
    private static let text = pageLike(500, seed: 6)

    private func failure(_ body: [UInt8], _ codings: [ContentCoding]) -> DecodingFailure? {
        decodingFailure { () throws(DecodingFailure) in try DecoderProbe(codings).decode(body) }
    }

    private func isCorrupt(_ body: [UInt8], _ coding: ContentCoding, _ words: String = "") -> Bool {
        guard let failure = failure(body, [coding]), case .corrupt(let found) = failure.reason else { return false }
        return failure.coding == coding && (words.isEmpty || found.contains(words))
    }

    // MARK: Checksums

    @Test func `a wrong checksum or length is an error with the library's message`() throws {
        let gzip = try Encoders.gzip(Self.text)
        for index in gzip.count - 8..<gzip.count {
            var body = gzip
            body[index] ^= 1
            let words = index < gzip.count - 4 ? "incorrect data check" : "incorrect length check"
            #expect(isCorrupt(body, .gzip, words))
            #expect(isCorrupt(gzip + body, .gzip, words), "in the second member")
        }
        var zlib = try Encoders.deflate(Self.text, windowBits: 15)
        zlib[zlib.count - 1] ^= 1
        #expect(isCorrupt(zlib, .deflate, "incorrect data check"))
        var zstd = try Encoders.zstd(Self.text)
        zstd[zstd.count - 1] ^= 1
        #expect(isCorrupt(zstd, .zstd, "checksum"))
    }

    @Test func `the checksum of a gzip header is verified`() throws {
        var member = try Encoders.gzip(Self.text)
        member[3] |= 0x02
        // The checksum is the lower half of the CRC-32 of the ten bytes (RFC 1952, section 2.3.1).
        let checksum = CRC32.of(Array(member[..<10]))
        let good = member[..<10] + [UInt8(checksum & 0xFF), UInt8(checksum >> 8 & 0xFF)] + member[10...]
        #expect(try DecoderProbe([.gzip]).decode(Array(good)) == Self.text)
        var bad = Array(good)
        bad[10] ^= 1
        #expect(isCorrupt(bad, .gzip, "header crc"))
    }

    @Test func `a decoder that failed keeps failing`() throws {
        let probe = try DecoderProbe([.gzip])
        var body = try Encoders.gzip(Self.text)
        body[body.count - 1] ^= 1
        let first = decodingFailure { () throws(DecodingFailure) in try probe.feed(body) }
        #expect(first != nil && probe.failureAtFinish == first && !probe.decoder.hasPending)
        let good = try Encoders.gzip(Self.text)
        #expect(decodingFailure { () throws(DecodingFailure) in try probe.feed(good) } == first)
        #expect(decodingFailure { () throws(DecodingFailure) in try probe.resume() } == first)
    }

    @Test func `a zstd frame must have the declared length`() throws {
        // zstd does not check a frame whose last block is empty. The bytes are the magic number, a descriptor that
        // declares a length in one byte, the length, and the header of the block (RFC 8878, section 3.1.1).
        let frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 1, 0, 0]
        #expect(try DecoderProbe([.zstd]).decode(frame, pieceSize: 1).isEmpty)
        var longer = frame
        longer[5] = 100
        for pieceSize in [1, 5, 9, 100] {
            let failure = decodingFailure { () throws(DecodingFailure) in
                try DecoderProbe([.zstd]).decode(frame + longer, pieceSize: pieceSize)
            }
            guard case .corrupt? = failure?.reason else {
                Issue.record("pieces of \(pieceSize): \(String(describing: failure))")
                continue
            }
        }
    }

    @Test func `damage after pending bytes is an error once they are consumed`() throws {
        let text = pageLike(300_000, seed: 7)
        var body = try Encoders.gzip(text)
        body[body.count - 1] ^= 1
        let probe = try DecoderProbe([.gzip])
        probe.refuses = true
        try probe.feed(body)
        #expect(probe.decoder.hasPending)
        probe.refuses = false
        let failure = decodingFailure { () throws(DecodingFailure) in try probe.resume() }
        #expect(failure?.reason == .corrupt("incorrect length check"))
        #expect(!probe.decoder.hasPending && text.starts(with: probe.output))
    }

    @Test func `a zstd frame has the same outcome for any division of its bytes`() throws {
        // A compressed block of no bytes is invalid. The library treats it as empty, unless it gets the complete frame
        // at once.
        let frame: [UInt8] = [0x28, 0xB5, 0x2F, 0xFD, 0x20, 0, 5, 0, 0]
        let failures = [1, 5, 9].map { pieceSize in
            decodingFailure { () throws(DecodingFailure) in
                try DecoderProbe([.zstd]).decode(frame, pieceSize: pieceSize)
            }
        }
        #expect(Set(failures).count == 1)
    }

    // MARK: What follows the end

    @Test func `bytes after the last gzip member are ignored if they do not begin a member`() throws {
        let member = try Encoders.gzip(Self.text)
        let ends: [[UInt8]] = [
            [0], Array(repeating: 0, count: 512), Array("<!-- took 3 ms -->".utf8), [0x1F, 0x00], [0x1F, 0x1F, 0x8B],
            [0] + member,
        ]
        for end in ends {
            for pieceSize in [1, member.count, Int.max] {
                let probe = try DecoderProbe([.gzip])
                #expect(try probe.decode(member + end, pieceSize: pieceSize) == Self.text)
                #expect(probe.decoder.encodedByteCount == member.count + end.count)
            }
        }
    }

    @Test func `bytes after a gzip member that begin like another one must be valid`() throws {
        let member = try Encoders.gzip(Self.text)
        #expect(failure(member + [0x1F], [.gzip])?.reason == .endsEarly)
        #expect(failure(member + [0x1F, 0x8B], [.gzip])?.reason == .endsEarly)
        #expect(isCorrupt(member + [0x1F, 0x8B, 0x07, 0], .gzip, "method"))
    }

    @Test func `bytes after data in the zlib format are ignored`() throws {
        let body = try Encoders.deflate(Self.text, windowBits: 15)
        for end in [[0], [1, 2, 3, 4], body] as [[UInt8]] {
            #expect(try DecoderProbe([.deflate]).decode(body + end, pieceSize: 7) == Self.text)
        }
    }

    @Test(arguments: [1, 3, Int.max])
    func `raw deflate data may be followed by at most four bytes`(pieceSize: Int) throws {
        let body = try Encoders.deflate(Self.text, windowBits: -15)
        for count in 0...6 {
            let longer = body + [UInt8](repeating: 7, count: count)
            let failure = decodingFailure { () throws(DecodingFailure) in
                try DecoderProbe([.deflate]).decode(longer, pieceSize: pieceSize)
            }
            #expect(failure?.reason == (count <= 4 ? nil : .corrupt("trailing data")))
        }
    }

    @Test func `bytes after a Brotli stream or a zstd frame are an error`() throws {
        let brotli = try Encoders.brotli(Self.text)
        #expect(isCorrupt(brotli + [0], .brotli, "trailing data"))
        #expect(isCorrupt(brotli + brotli, .brotli, "trailing data"))
        #expect(isCorrupt(try Encoders.zstd(Self.text) + [0, 0, 0, 0], .zstd))
    }

    // MARK: Other formats

    @Test func `a body that does not match its Content-Encoding is an error`() {
        let bodies = ["{\"id\": 1, \"name\": \"Ada\"}", "<!DOCTYPE html><html></html>", "hello, world, and all in it"]
        for body in bodies.map({ Array($0.utf8) }) {
            for coding in [ContentCoding.gzip, .deflate, .brotli, .zstd] {
                #expect(failure(body, [coding]) != nil, "\(coding)")
            }
        }
    }

    @Test func `the zlib format with a preset dictionary is an error`() {
        // FDICT is set, and an identifier follows (RFC 1950, section 2.2).
        #expect(isCorrupt([0x78, 0xBB, 1, 2, 3, 4, 5, 6], .deflate, "dictionary"))
    }

    // The test can fail only with a library built to read legacy formats.
    @Test(arguments: [0x22, 0x24, 0x25, 0x26, 0x27, 0x1E] as [UInt8])
    func `legacy zstd formats are errors`(first: UInt8) {
        #expect(isCorrupt([first, 0xB5, 0x2F, 0xFD] + Array(repeating: 0, count: 32), .zstd, "Unknown frame"))
    }

    // If the library has already parsed the start of a frame, it would mistake the following bytes for a legacy format.
    @Test(arguments: [1, 2, 3, 4, 5, 6, .max])
    func `a legacy format inside the beginning of a frame is an error`(size: Int) {
        let old: [UInt8] = [
            0x27, 0xB5, 0x2F, 0xFD, 0, 0, 0x60, 0, 0x0B, 0x20, 0x28, 3, 0x3D, 0, 0x0B, 0, 0, 0x30, 0xFE, 0xFF, 0xFF, 0x0B,
            0x0B,
        ]
        // The legacy format begins after the first byte, or at a descriptor with its reserved bit set.
        for body in [[0x28] + old, [0x28, 0xB5, 0x2F, 0xFD, 0x1E] + old.dropFirst()] {
            #expect(throws: DecodingFailure(coding: .zstd, reason: .corrupt("Unknown frame descriptor"))) {
                try DecoderProbe([.zstd]).decode(body, pieceSize: size)
            }
        }
    }

    @Test func `a zstd window may have at most 8 MiB`() throws {
        var body = try Encoders.zstd(Self.text, windowLog: 17)
        // The window descriptor follows the frame descriptor, which indicates its presence (RFC 8878, section 3.1.1.1).
        // The descriptor has five bits for the power of two above 10, and three for eighths.
        try #require(body[4] & 0x20 == 0)
        body[5] = (23 - 10) << 3
        #expect(try DecoderProbe([.zstd]).decode(body, pieceSize: 9) == Self.text)
        for descriptor in [(23 - 10) << 3 | 1, (24 - 10) << 3, 0xFF] as [UInt8] {
            body[5] = descriptor
            #expect(isCorrupt(body, .zstd, "too much memory"))
        }
    }
}

/// The CRC-32 of gzip (RFC 1952, section 8), computed bit by bit.
private enum CRC32 {
    static func of(_ bytes: [UInt8]) -> UInt32 {
        ~bytes.reduce(UInt32.max) { sum, byte in
            (0..<8).reduce(sum ^ UInt32(byte)) { sum, _ in sum & 1 == 1 ? sum >> 1 ^ 0xEDB8_8320 : sum >> 1 }
        }
    }
}
