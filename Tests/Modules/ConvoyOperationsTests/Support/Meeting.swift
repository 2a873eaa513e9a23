import ConvoySupport
import Foundation

/// A meeting point for a number of threads that must be able to block concurrently.
final class Meeting: Sendable {
    private let count: Int
    private let arrived = Locked(0)
    private let everybody = DispatchSemaphore(value: 0)
    private let isOver = DispatchSemaphore(value: 0)

    init(of count: Int) { self.count = count }

    /// Blocks until all threads have arrived. Returns false if one has not arrived within a hundred seconds.
    func arrive() -> Bool {
        let number = arrived.withLock { arrived in
            arrived += 1
            return arrived
        }
        if number == count {
            for _ in 0..<count { everybody.signal() }
            isOver.signal()
        }
        return everybody.wait(timeout: .now() + 100) == .success
    }

    /// Blocks until all threads have met. Returns false after a hundred seconds.
    func wait() -> Bool { isOver.wait(timeout: .now() + 100) == .success }
}
