import ConvoySupport
import ConvoyWorkflow
import Dispatch

/// Calls of async functions from a thread that may block.
enum AsyncCall {
    /// Returns the outcome of a closure, and blocks until it is available. Must not be called on a thread of Swift's
    /// concurrency pool.
    static func outcome<Output: Sendable>(
        _ body: @escaping @Sendable () async throws -> Output
    ) -> Result<Output, any Error> {
        let isOver = DispatchSemaphore(value: 0)
        let result = Locked<Result<Output, any Error>?>(nil)
        Task {
            let ended: Result<Output, any Error>
            do { ended = .success(try await body()) } catch { ended = .failure(error) }
            result.withLock { $0 = ended }
            isOver.signal()
        }
        isOver.wait()
        return result.withLock { $0 } ?? .failure(ToolError.failure("cancelled"))
    }
}

extension WorkflowRun {
    /// Runs the workflow and waits for it on this thread, which must not belong to Swift's concurrency pool. A signal
    /// cancels the run.
    func wait() -> WorkflowResult {
        Interruption.shared.onInterrupt { self.cancel() }
        return (try? AsyncCall.outcome { await self.run() }.get()) ?? WorkflowResult()
    }
}
