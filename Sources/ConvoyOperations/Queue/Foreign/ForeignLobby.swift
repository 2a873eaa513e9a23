import ConvoySupport
import Foundation
import Synchronization

/// A place where an operation that is not one of Convoy's waits until it is ready, and then for a slot.
///
/// Only a Foundation queue learns that such an operation became ready: because a dependency finished, because it was
/// cancelled, or for reasons of its own. A Foundation queue with many waiting operations is slow, as it checks all of
/// them at each event, so each operation gets a queue of its own. Its underlying dispatch queue is not active yet:
/// Foundation submits the ready operation to it, and there the operation stays until ``open()``.
///
/// In the operation's code `OperationQueue.current` is the lobby, which forwards what is added to it.
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
        // Releasing an inactive dispatch queue crashes.
        gate.activate()
    }

    /// Whether the operation was reported ready.
    var hasAnnounced: Bool { probe.hasAnnounced }

    /// Adds the operation, and reports it ready at once if it is.
    func enter(_ operation: Operation) {
        super.addOperation(operation)
        // With the lowest priority, so that Foundation evaluates the operation first.
        probe.queuePriority = .veryLow
        super.addOperation(probe)
    }

    /// Lets the operation start, now or as soon as it is ready.
    func open() {
        gate.activate()
        // Foundation may have missed that the operation became ready, if the operation did not post it.
        probe.operation?.didChangeValue(forKey: "isReady")
    }

    /// Lets the probe finish, and with it the lobby.
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

    /// The second operation of a lobby, which observes the first.
    ///
    /// Whenever something happens in a Foundation queue, the queue evaluates `isReady` of the operations that were not
    /// ready before. The probe is not ready until the first operation has finished, so its `isReady` is evaluated after
    /// each event of that operation.
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
    /// The Dispatch class to which Foundation maps this quality of service.
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
