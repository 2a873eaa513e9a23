import Foundation

/// The detection of operations that wait for each other in a cycle and would never finish.
///
/// A cycle is complete when its last member enters a ``RequestOperationQueue``, or when its last dependency is added
/// while all members are in queues. An operation without both dependencies and dependents in queues completes no cycle.
/// So the check is free for an operation without dependencies, and in a long chain it inspects only the neighbors.
enum DependencyCycle {
    /// Cancels the members of the cycles through an operation, if any, all with the same error.
    static func end(through operation: ScheduledOperation) {
        guard mayExist(through: operation) else { return }
        let members = members(through: operation)
        guard !members.isEmpty else { return }
        let error = RequestOperationQueueError.dependencyCycle(count: members.count)
        var schedulers: [ObjectIdentifier: Scheduler] = [:]
        for case let scheduler? in members.map({ $0.scheduler.object }) {
            schedulers[ObjectIdentifier(scheduler)] = scheduler
        }
        Scheduler.cancel(members, in: Array(schedulers.values), because: error)
    }

    /// Returns whether a cycle may exist. Searches both directions in alternating steps, so that the shorter one
    /// decides.
    ///
    /// Dependents may have removed the dependency in the meantime, so the result may be true without a cycle.
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

        /// Adds operations to the search. Returns whether the goal is among them.
        mutating func add(_ operations: [ScheduledOperation], until goal: ScheduledOperation) -> Bool {
            for operation in operations {
                if operation === goal { return true }
                if seen.insert(ObjectIdentifier(operation)).inserted { left.append(operation) }
            }
            return false
        }
    }

    /// Returns the operation together with all operations that it both waits for and is awaited by, directly or
    /// indirectly; empty without a cycle.
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
    /// Whether the operation waits in a queue for its dependencies.
    private var isHeldByDependencies: Bool { isScheduled && waitsForDependencies }

    fileprivate var dependenciesInQueues: [ScheduledOperation] {
        unfinishedDependencies.compactMap { $0 as? ScheduledOperation }.filter(\.isHeldByDependencies)
    }

    fileprivate var dependentsInQueues: [ScheduledOperation] { operationsThatWait.filter(\.isHeldByDependencies) }
}
