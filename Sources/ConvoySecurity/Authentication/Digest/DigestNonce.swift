import ConvoySupport
import Foundation

/// A server's nonce in use: counts the requests with it, and makes the client's numbers.
///
/// One object for all requests that use the nonce, on any thread: a server refuses a count that it has seen.
package final class DigestNonce: Sendable {
    /// The challenge with the nonce.
    package let challenge: DigestChallenge
    private let uses = Locked<UInt32>(0)
    /// The client's first number, which stays a part of the key with an algorithm that keeps it.
    private let firstCnonce = DigestNonce.randomText()

    /// A nonce with which there has been no request.
    package init(_ challenge: DigestChallenge) {
        self.challenge = challenge
    }

    /// The count for the next request: 1, 2, and so on (`nc`). After 2³² - 1 it is 1 again, which the server refuses with
    /// a new nonce.
    package func nextCount() -> UInt32 {
        uses.withLock {
            $0 = $0 == .max ? 1 : $0 + 1
            return $0
        }
    }

    /// The client's number for a request: 32 random hexadecimal digits, for each request others. With an algorithm that
    /// keeps its key they are always the same.
    package func makeCnonce() -> String { challenge.algorithm.keepsKey ? firstCnonce : Self.randomText() }

    /// The number is 128 bits of the system's generator, as a chosen one would let a server compute tables of passwords
    /// beforehand.
    private static func randomText() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next() as UInt64, generator.next()].map { number in
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}
