import Dispatch
import Glibc

/// The kinds of isolation that a caller can have.
enum CallerKind: CaseIterable {
    case mainActor, actor, actorWithExecutor

    func makeActor() -> any Actor {
        switch self {
        case .mainActor: MainActor.shared
        case .actor: PlainActor()
        case .actorWithExecutor: QueueActor()
        }
    }
}

private actor PlainActor {}

private actor QueueActor {
    private let executor = QueueExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
}

private final class QueueExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "executor")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
}

extension Actor {
    /// Whether the calling code runs on the actor; nil if the runtime does not report it. The functions of the standard
    /// library would end the process instead, and a test must name the function at fault.
    nonisolated var isCurrent: Bool? {
        guard let symbol = dlsym(nil, "swift_task_isCurrentExecutorWithFlags") else { return nil }
        typealias Check = @convention(c) (UInt, UInt, UInt64) -> Bool
        let (identity, implementation) = unsafeBitCast(unownedExecutor, to: (UInt, UInt).self)
        return unsafeBitCast(symbol, to: Check.self)(identity, implementation, 0)
    }
}
