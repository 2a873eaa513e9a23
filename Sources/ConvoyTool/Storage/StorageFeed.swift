import ConvoySupport
import Foundation

/// The transfers of `convoy s3`. Before a transfer can be created, its object may have to be looked up: several such steps
/// run concurrently, and only as far ahead of the transfers as necessary.
final class StorageFeed: TransferFeed {
    /// Creates the next step. It runs in a task, and must not block for long.
    typealias Preparation = @Sendable () async -> TransferStep

    /// The number of steps that are prepared before they are needed.
    static let ahead = 8

    private struct Steps {
        var preparing = 0
        var ready: [TransferStep] = []
        var running = 0
    }

    /// The steps, shared with the tasks that prepare them.
    private final class Progress: Sendable {
        let steps = Locked(Steps())
        private let change = DispatchSemaphore(value: 0)

        func noteEnd() {
            steps.withLock { $0.running -= 1 }
            change.signal()
        }

        func add(_ step: TransferStep) {
            steps.withLock { steps in
                steps.preparing -= 1
                steps.ready.append(step)
            }
            change.signal()
        }

        func waitForChange() { _ = change.wait(timeout: .now() + 0.2) }
    }

    let total: Int?
    let hooks: TransferHooks
    private var rest: ArraySlice<Preparation>
    private let limit: Int
    private let progress: Progress

    /// - Parameter jobs: The maximum number of concurrent transfers.
    init(_ preparations: [Preparation], jobs: Int) {
        rest = preparations[...]
        total = preparations.count
        limit = jobs + Self.ahead
        let progress = Progress()
        self.progress = progress
        hooks = TransferHooks(finish: { _ in progress.noteEnd() })
    }

    func next() -> TransferStep {
        let room = progress.steps.withLock { limit - $0.preparing - $0.ready.count - $0.running }
        for preparation in rest.prefix(max(0, room)) { prepare(preparation) }
        rest = rest.dropFirst(max(0, room))
        let isLast = rest.isEmpty
        return progress.steps.withLock { steps in
            guard !steps.ready.isEmpty else { return steps.preparing == 0 && isLast ? .end : .wait }
            let step = steps.ready.removeFirst()
            if case .transfer = step { steps.running += 1 }
            return step
        }
    }

    private func prepare(_ preparation: @escaping Preparation) {
        progress.steps.withLock { $0.preparing += 1 }
        Task { [progress] in
            progress.add(await preparation())
        }
    }

    /// Returns regularly, so that a signal can end the run.
    func waitForChange() { progress.waitForChange() }
}
