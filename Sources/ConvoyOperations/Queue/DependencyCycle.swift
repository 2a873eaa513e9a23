import ConvoySupport
import Foundation

/// The detection of operations that wait for each other in a cycle and would never finish.
///
/// A cycle is complete when its last member enters a ``RequestOperationQueue`` or is awaited, or when its last dependency
/// is added after that. An operation without both dependencies and dependents in queues completes no cycle.
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
        // An awaited operation starts as soon as the end of another member makes it ready, and must be cancelled by then.
        let awaited = members.filter { !$0.isScheduled }.map { ($0, $0.markCancelled(because: error)) }
        Scheduler.cancel(members, in: Array(schedulers.values), because: error)
        for case (let operation, let transition?) in awaited { operation.proceed(after: transition) }
    }

    /// Returns whether a cycle may exist. Searches both directions in alternating steps, so that the shorter one
    /// decides.
    ///
    /// Dependents may have removed the dependency in the meantime, so the result may be true without a cycle.
    private static func mayExist(through operation: ScheduledOperation) -> Bool {
        var dependents = [operation], dependencies = [operation]
        var seenDependents: Set<ObjectIdentifier> = [], seenDependencies: Set<ObjectIdentifier> = []
        while let dependent = dependents.popLast(), let dependency = dependencies.popLast() {
            for next in dependent.dependentsInQueues where seenDependents.insert(ObjectIdentifier(next)).inserted {
                dependents.append(next)
            }
            for next in dependency.dependenciesInQueues where seenDependencies.insert(ObjectIdentifier(next)).inserted {
                dependencies.append(next)
            }
            let key = ObjectIdentifier(operation)
            if seenDependents.contains(key) || seenDependencies.contains(key) { return true }
        }
        return false
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
    /// Whether the operation waits for its dependencies, in a queue or because it is awaited.
    private var isHeldByDependencies: Bool { (isScheduled || has(.startsWhenReady)) && waitsForDependencies }

    fileprivate var dependenciesInQueues: [ScheduledOperation] {
        unfinishedDependencies.compactMap { $0 as? ScheduledOperation }.filter(\.isHeldByDependencies)
    }

    fileprivate var dependentsInQueues: [ScheduledOperation] { knownDependents.filter(\.isHeldByDependencies) }
}
