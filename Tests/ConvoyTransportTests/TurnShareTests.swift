import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// One transfer uses a bounded share of each turn of the run loop.
@Suite struct TurnShareTests {
    /// Counts the turns of a thread's loop, and what its transfers receive in each.
    private final class TurnCounter: Sendable {
        struct Counts {
            var turns = 0
            var bytes = 0
            var most = 0
            var total = 0
            var isOver = false
        }

        let counts = Locked(Counts())

        /// Begins a turn: the block that this passes to the thread runs in the next one.
        func beginTurn(of thread: NetworkThread) {
            let isOver = counts.withLock { counts in
                counts.turns += 1
                counts.bytes = 0
                return counts.isOver
            }
            if !isOver { thread.perform { self.beginTurn(of: thread) } }
        }

        func note(_ count: Int) {
            counts.withLock { counts in
                counts.bytes += count
                counts.total += count
                counts.most = max(counts.most, counts.bytes)
            }
        }
    }

    private final class Counting: URLConnectionDelegate {
        let counter: TurnCounter
        let ended = DispatchSemaphore(value: 0)
        let error = Locked<URLError?>(nil)

        init(_ counter: TurnCounter) { self.counter = counter }

        func connection(_ connection: any Connection, didReceive response: ResponseHead) {}
        func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) { counter.note(data.count) }
        func connectionDidFinish(_ connection: any Connection) { ended.signal() }
        func connection(_ connection: any Connection, didFailWith failure: URLError) {
            error.withLock { $0 = failure }
            ended.signal()
        }
        func connectionDidCancel(_ connection: any Connection) { ended.signal() }
    }

    private func mostInTurn(
        _ url: URL, size: Int, _ configuration: ConnectionConfiguration = ConnectionConfiguration(), transfers: Int = 1
    ) throws -> Int {
        let (thread, counter) = (NetworkThread(), TurnCounter())
        defer { counter.counts.withLock { $0.isOver = true } }
        _ = thread.perform { counter.beginTurn(of: thread) }
        let delegates = (0..<transfers).map { _ in Counting(counter) }
        for delegate in delegates {
            URLConnection(request: URLRequest(url: url), configuration: configuration, delegate: delegate, thread: thread)
                .start()
        }
        for delegate in delegates {
            try delegate.ended.waitOrThrow(timeout: 60)
            #expect(delegate.error.withLock { $0 } == nil)
        }
        return counter.counts.withLock { counts in
            #expect(counts.total == size * transfers)
            return counts.most
        }
    }

    @Test(arguments: [false, true])
    func `a fast download receives a bounded number of bytes in a turn`(isSecure: Bool) throws {
        let nginx = try Nginx()
        let size = 32 << 20
        let path = try nginx.add(PatternBytes.data(count: size), as: "large").lastPathComponent
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        let url = isSecure ? nginx.secureURL(path) : nginx.url(path)
        // The turn's events are handled before the block that counts the turn, so two shares may meet in one count.
        let most = try mostInTurn(url, size: size, configuration)
        #expect(most <= 2 * (TurnShares.share + configuration.receiveBufferSize), "\(most) bytes")
        // The streams of an HTTP/2 connection share what one read of it brings.
        guard !isSecure else { return }
        let together = try mostInTurn(url, size: size, configuration, transfers: 6)
        #expect(
            together <= 2 * (TurnShares.total + 6 * (TurnShares.smallShare + configuration.receiveBufferSize)),
            "\(together) bytes")
    }

    @Test(arguments: [false, true])
    func `a transfer that rests at its last bytes ends`(isSecure: Bool) throws {
        let nginx = try Nginx()
        let configuration = ConnectionConfiguration(certificateAuthorities: nginx.certificateAuthority)
        for size in stride(from: 100_000, through: 600_000, by: isSecure ? 39_973 : 9_973) {
            let name = "\(size)"
            try nginx.add(PatternBytes.data(count: size), as: name)
            // Nothing else wakes the loop: no turns are counted.
            var request = URLRequest(url: isSecure ? nginx.secureURL(name) : nginx.url(name))
            request.timeoutInterval = 10
            let heard = try #require(load(request, configuration: configuration, thread: NetworkThread()))
            #expect(heard.isFinished && heard.body.count == size, "\(size): \(heard.ends)")
        }
    }
}
