import ConvoySecurity
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyUploads

/// The digests of sent bytes.
struct SentDigestTests {
    @Test func `a digest is correct if it is completed while it follows the confirmed bytes`() throws {
        var generator = SplitMix64(seed: 5)
        let data = generator.data(count: 40_000)
        let expected = try #require(MessageDigest.sha256(data)).hexadecimalString
        for _ in 0..<3000 {
            let digest = SentDigest(DataSource(data), [.sha256])
            digest.advance(to: 20_000)
            try digest.reach(40_000)
            #expect(digest.checksums(of: 40_000)?.map(\.hexadecimal) == [expected])
        }
    }
}
