import ConvoySupport
import Dispatch

/// Calls of async functions from a thread that may block.
enum AsyncCall {
    /// Returns the outcome of a closure, and blocks until it is available. Must not be called on a thread of Swift's
    /// concurrency pool.
    static func outcome<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) -> Result<Value, any Error> {
        let isOver = DispatchSemaphore(value: 0)
        let result = Locked<Result<Value, any Error>?>(nil)
        Task {
            let ended: Result<Value, any Error>
            do { ended = .success(try await body()) } catch { ended = .failure(error) }
            result.withLock { $0 = ended }
            isOver.signal()
        }
        isOver.wait()
        return result.withLock { $0 } ?? .failure(ToolError.failure("cancelled"))
    }
}
