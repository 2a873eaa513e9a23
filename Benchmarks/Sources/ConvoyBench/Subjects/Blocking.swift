import Foundation
import Synchronization

/// Runs asynchronous work and blocks the thread until it is done. Must not be called in Swift's concurrency pool.
func blocking<Value: Sendable>(_ work: @escaping @Sendable () async throws -> Value) throws -> Value {
    let outcome = Outcome<Value>()
    Task {
        let result: Result<Value, any Error>
        do { result = .success(try await work()) } catch { result = .failure(error) }
        outcome.result.withLock { $0 = result }
        outcome.done.signal()
    }
    outcome.done.wait()
    guard let result = outcome.result.withLock({ $0 }) else { throw BenchError("no result") }
    return try result.get()
}

private final class Outcome<Value: Sendable>: Sendable {
    let result = Mutex<Result<Value, any Error>?>(nil)
    let done = DispatchSemaphore(value: 0)
}
