import ConvoySupport
import Foundation

/// The limits of a single request, `perHost` and `perSecond`, which apply to its items and pages together.
final class RequestLimits: Sendable {
    private struct Waiter {
        let number: Int
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct Slots {
        var running: [String: Int] = [:]
        var waiters: [String: [Waiter]] = [:]
        /// The time of the next allowed start, by host.
        var starts: [String: ContinuousClock.Instant] = [:]
        var count = 0
        /// The waiters that were cancelled before they started to wait.
        var cancelled: Set<Int> = []
    }

    private let perHost: Int?
    private let interval: Duration?
    private let state = Locked(Slots())

    init(perHost: Int?, perSecond: Double?) {
        self.perHost = perHost
        interval = perSecond.map { .seconds(1 / $0) }
    }

    /// Waits until a request to a host may start. ``end(_:)`` must be called afterwards, unless it throws.
    ///
    /// - Throws: `CancellationError`.
    func begin(_ host: String) async throws {
        if let perHost { try await takePlace(host, perHost) }
        guard let interval else { return }
        let start = state.withLock { state -> ContinuousClock.Instant in
            let start = max(.now, state.starts[host] ?? .now)
            state.starts[host] = start + interval
            return start
        }
        do {
            try await Task.sleep(until: start, clock: .continuous)
        } catch {
            end(host)
            throw error
        }
    }

    private func takePlace(_ host: String, _ limit: Int) async throws {
        let number = state.withLock { state in
            state.count += 1
            return state.count
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result = state.withLock { state -> Result<Void, any Error>? in
                    if state.cancelled.remove(number) != nil { return .failure(CancellationError()) }
                    guard state.running[host, default: 0] >= limit else {
                        state.running[host, default: 0] += 1
                        return .success(())
                    }
                    state.waiters[host, default: []].append(Waiter(number: number, continuation: continuation))
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { state -> Waiter? in
                for (host, waiters) in state.waiters {
                    guard let index = waiters.firstIndex(where: { $0.number == number }) else { continue }
                    return state.waiters[host]?.remove(at: index)
                }
                state.cancelled.insert(number)
                return nil
            }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Passes the slot of a finished request to the next waiting request.
    func end(_ host: String) {
        guard perHost != nil else { return }
        let next = state.withLock { state -> Waiter? in
            guard var waiters = state.waiters[host], !waiters.isEmpty else {
                state.running[host, default: 1] -= 1
                return nil
            }
            let first = waiters.removeFirst()
            state.waiters[host] = waiters
            return first
        }
        next?.continuation.resume()
    }
}
