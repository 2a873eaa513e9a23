/// Runs work that may block for an async function, on a thread of ``BlockingWorkers`` rather than of Swift's concurrency
/// pool.
package enum BlockingWork {
    package static func run<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            BlockingWorkers.shared.perform { continuation.resume(with: Result { try work() }) }
        }
    }
}
