import Foundation

/// Operations that wait for each other in a circle, which none of them would ever leave.
///
/// A circle is complete when its last member enters a ``RequestOperationQueue``, or when its last dependency is added
/// while all members are in one. Only that member has both dependencies and dependents in queues, so that an operation
/// without dependencies costs nothing, and a long chain nothing but a look at its neighbours.
enum DependencyCycle {
    /// Cancels the members of the circles through an operation, if there are any, each with the same error.
    static func end(through operation: ScheduledOperation) {
        guard mayExist(through: operation) else { return }
        let members = members(through: operation)
        guard !members.isEmpty else { return }
        let error = RequestOperationQueueError.dependencyCycle(count: members.count)
        // Nothing is started until all are cancelled: the end of the first would let the next one begin its work.
        var schedulers: [ObjectIdentifier: Scheduler] = [:]
        for case let scheduler? in members.map({ $0.scheduler.object }) {
            schedulers[ObjectIdentifier(scheduler)] = scheduler
        }
        for scheduler in schedulers.values { scheduler.state.withLock { $0.cancellations += 1 } }
        for member in members { member.cancel(because: error) }
        for scheduler in schedulers.values { scheduler.change { $0.cancellations -= 1 } }
    }

    /// Searches step by step in both directions, so that the end of the shorter way decides.
    ///
    /// Dependents may have dropped the dependency meanwhile: the answer may be true without a circle.
    private static func mayExist(through operation: ScheduledOperation) -> Bool {
        var dependents = Search(from: operation), dependencies = Search(from: operation)
        while true {
            guard let next = dependents.next() else { return false }
            if dependents.add(next.dependentsInQueues, until: operation) { return true }
            guard let next = dependencies.next() else { return false }
            if dependencies.add(next.dependenciesInQueues, until: operation) { return true }
        }
    }

    private struct Search {
        private var seen: Set<ObjectIdentifier> = []
        private var left: [ScheduledOperation]

        init(from operation: ScheduledOperation) { left = [operation] }

        mutating func next() -> ScheduledOperation? { left.popLast() }

        /// Whether the goal is among them.
        mutating func add(_ operations: [ScheduledOperation], until goal: ScheduledOperation) -> Bool {
            for operation in operations {
                if operation === goal { return true }
                if seen.insert(ObjectIdentifier(operation)).inserted { left.append(operation) }
            }
            return false
        }
    }

    /// All that an operation waits for and that wait for it, with the operation itself; empty if there is no circle.
    private static func members(through operation: ScheduledOperation) -> [ScheduledOperation] {
        var found: [ObjectIdentifier: ScheduledOperation] = [ObjectIdentifier(operation): operation]
        var dependents: [ObjectIdentifier: [ScheduledOperation]] = [:]
        var left = [operation]
        while let next = left.popLast() {
            for dependency in next.dependenciesInQueues {
                dependents[ObjectIdentifier(dependency), default: []].append(next)
                if found.updateValue(dependency, forKey: ObjectIdentifier(dependency)) == nil { left.append(dependency) }
            }
        }
        var members: [ObjectIdentifier: ScheduledOperation] = [:]
        left = [operation]
        while let next = left.popLast() {
            for dependent in dependents[ObjectIdentifier(next)] ?? []
            where members.updateValue(dependent, forKey: ObjectIdentifier(dependent)) == nil {
                left.append(dependent)
            }
        }
        return Array(members.values)
    }
}

extension ScheduledOperation {
    /// Whether it waits in a queue for its dependencies.
    private var isHeldByDependencies: Bool {
        isScheduled && !endsWithoutWork && !lifecycle.value.hasBegun && !areDependenciesFinished
    }

    fileprivate var dependenciesInQueues: [ScheduledOperation] {
        unfinishedDependencies.compactMap { $0 as? ScheduledOperation }.filter(\.isHeldByDependencies)
    }

    fileprivate var dependentsInQueues: [ScheduledOperation] { operationsThatWait.filter(\.isHeldByDependencies) }
}
