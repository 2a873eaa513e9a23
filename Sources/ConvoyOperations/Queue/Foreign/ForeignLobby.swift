import ConvoySupport
import Foundation
import Synchronization

/// Where an operation that is none of Convoy's waits until it is ready, and then for a slot.
///
/// Only a Foundation queue learns that such an operation became ready: because a dependency finished,
/// because it was cancelled, or for reasons of its own. One Foundation queue with many waiting
/// operations is slow (it looks at all of them at each event), so each gets one to itself. Behind it
/// lies a dispatch queue that is not active yet: there Foundation sends the ready operation, and
/// there it stays until ``open()``.
///
/// In code of the operation `OperationQueue.current` is the lobby. It passes on what is added to it.
final class ForeignLobby: OperationQueue, @unchecked Sendable {
    private let owner: OperationQueue
    private let gate: DispatchQueue
    private let probe: ReadinessProbe

    init(for member: ForeignMember, in owner: OperationQueue) {
        self.owner = owner
        gate = DispatchQueue(
            label: "Convoy.ForeignLobby", attributes: .initiallyInactive,
            target: owner.underlyingQueue ?? DispatchQueue.global(qos: owner.qualityOfService.dispatchClass))
        probe = ReadinessProbe(member)
        super.init()
        underlyingQueue = gate
    }

    deinit {
        // An inactive dispatch queue must not be released.
        gate.activate()
    }

    /// Whether the operation was reported ready.
    var hasAnnounced: Bool { probe.hasAnnounced }

    /// Takes the operation in. Reports it ready at once if it has become so.
    func enter(_ operation: Operation) {
        super.addOperation(operation)
        // The last in the list: Foundation then finds the operation first.
        probe.queuePriority = .veryLow
        super.addOperation(probe)
    }

    /// Lets the operation start, now or as soon as it is ready.
    func open() {
        gate.activate()
        // Foundation may have missed that the operation became ready, if it did not say so.
        probe.operation?.didChangeValue(forKey: "isReady")
    }

    /// Lets the probe, and with it the lobby, come to an end.
    func close() {
        gate.activate()
        probe.didChangeValue(forKey: "isReady")
    }

    override func addOperation(_ operation: Operation) { owner.addOperation(operation) }
    override func addOperation(_ block: @escaping @Sendable () -> Void) { owner.addOperation(block) }
    override func addOperations(_ operations: [Operation], waitUntilFinished wait: Bool) {
        owner.addOperations(operations, waitUntilFinished: wait)
    }
    override func addBarrierBlock(_ barrier: @escaping @Sendable () -> Void) { owner.addBarrierBlock(barrier) }
    override func cancelAllOperations() { owner.cancelAllOperations() }
    override var maxConcurrentOperationCount: Int {
        get { owner.maxConcurrentOperationCount }
        set { owner.maxConcurrentOperationCount = newValue }
    }
    override var isSuspended: Bool {
        get { owner.isSuspended }
        set { owner.isSuspended = newValue }
    }
    override var name: String? {
        get { owner.name }
        set { owner.name = newValue }
    }
    override var progress: Progress { owner.progress }

    /// The second operation of a lobby, which listens.
    ///
    /// Whenever something happens in a Foundation queue, the queue evaluates `isReady` of the operations
    /// that were not ready before. The probe never is, until the other operation has finished; so its
    /// `isReady` is evaluated after each event of the other one.
    private final class ReadinessProbe: Operation, @unchecked Sendable {
        private let member = Locked<ForeignMember?>(nil)
        private let announced = Atomic<Bool>(false)

        init(_ member: ForeignMember) {
            super.init()
            self.member.withLock { $0 = member }
        }

        var hasAnnounced: Bool { announced.load(ordering: .sequentiallyConsistent) }
        var operation: Operation? { member.withLock { $0 }?.operation }

        override var isReady: Bool {
            guard let member = member.withLock({ $0 }) else { return true }
            if member.operation.isFinished {
                let wasFirst = self.member.withLock { held in
                    defer { held = nil }
                    return held != nil
                }
                guard wasFirst else { return true }
                member.finish()
                return true
            }
            if !hasAnnounced, member.operation.isReady,
                !announced.exchange(true, ordering: .sequentiallyConsistent)
            {
                member.becomeReady()
            }
            return false
        }
    }
}

extension QualityOfService {
    /// The class of Dispatch that Foundation maps it to.
    var dispatchClass: DispatchQoS.QoSClass {
        switch self {
        case .userInteractive: .userInteractive
        case .userInitiated: .userInitiated
        case .utility: .utility
        case .background: .background
        case .default: .default
        @unknown default: .default
        }
    }
}
