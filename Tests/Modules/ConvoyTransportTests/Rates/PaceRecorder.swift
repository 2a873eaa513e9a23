import ConvoySupport
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A delegate that records when bytes were received and sent.
final class PaceRecorder: ConnectionDelegate {
    struct Pace: Sendable {
        let start: MonotonicTime
        /// The times at which bytes were received, each with the total number of bytes by then.
        var received: [(time: MonotonicTime, total: Int)] = []
        /// The times at which bytes were sent, each with the total number of bytes by then.
        var sent: [(time: MonotonicTime, total: Int)] = []
        var isRight = true
        var hasHead = false
        var turns = 0
        var end: Collector.End?

        var receivedTotal: Int { received.last?.total ?? 0 }

        var isFinished: Bool {
            if case .finished = end { true } else { false }
        }

        var error: URLError? {
            if case .failed(let error) = end { error } else { nil }
        }

        /// Returns the maximum number of bytes by which a direction exceeded the rate.
        static func excess(
            of samples: [(time: MonotonicTime, total: Int)], over rate: Double, since start: MonotonicTime
        )
            -> Double
        {
            samples.map { Double($0.total) - rate * Double($0.time - start) / 1e9 }.max() ?? 0
        }
    }

    private let pace = Locked(Pace(start: MonotonicClock.now))
    private let ended = DispatchSemaphore(value: 0)

    var paceSoFar: Pace { pace.withLock { $0 } }

    /// The number of calls of `noteTurn`.
    var turns: Int { pace.withLock { $0.turns } }

    func noteTurn() { pace.withLock { $0.turns += 1 } }

    /// Returns the complete record once the transfer has ended; nil if it did not.
    func wait(within seconds: Double = 100) -> Pace? {
        guard ended.wait(timeout: .now() + seconds) == .success else { return nil }
        return paceSoFar
    }

    func connection(_ connection: any Connection, didReceive response: ResponseHead, after phases: TransactionPhases?) {
        pace.withLock { $0.hasHead = true }
    }

    func connection(_ connection: any Connection, didReceive data: UnsafeRawBufferPointer) {
        let now = MonotonicClock.now
        pace.withLock { pace in
            pace.isRight = pace.isRight && PatternBytes.matches(data, offset: pace.receivedTotal)
            pace.received.append((now, pace.receivedTotal + data.count))
        }
    }

    func connection(_ connection: any Connection, didSendBodyData count: Int, total: Int64, totalExpected: Int64?) {
        let now = MonotonicClock.now
        pace.withLock { $0.sent.append((now, Int(total))) }
    }

    func connectionDidFinish(_ connection: any Connection) { end(.finished) }
    func connection(_ connection: any Connection, didFailWith error: URLError) { end(.failed(error)) }
    func connectionDidCancel(_ connection: any Connection) { end(.cancelled) }

    private func end(_ how: Collector.End) {
        pace.withLock { $0.end = how }
        ended.signal()
    }
}

/// Starts a transfer with the given limits.
@discardableResult
func start(
    _ request: URLRequest, receiving: [RateLimit] = [], sending: [RateLimit] = [], stall: StallLimit? = nil,
    thread: NetworkThread = .shared, to recorder: PaceRecorder,
    _ change: (inout ConnectionConfiguration) -> Void = { _ in }
) -> RequestChain {
    var configuration = ConnectionConfiguration()
    configuration.receiveRateLimits = receiving
    configuration.sendRateLimits = sending
    configuration.stallLimit = stall
    change(&configuration)
    let connection = RequestChain(
        request: request, configuration: configuration, delegate: recorder, thread: thread)
    connection.start()
    return connection
}
