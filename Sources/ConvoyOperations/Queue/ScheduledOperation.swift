import Foundation
open class ScheduledOperation: Operation, @unchecked Sendable {
    package final var areDependenciesFinished: Bool { super.isReady }
    package final func readinessDidChange() { didChangeValue(forKey: "isReady") }
    package final func executionDidBegin() { didChangeValue(forKey: "isExecuting") }
    package final func slotDidFree() {}
    package final func executionDidFinish() { didChangeValue(forKey: "isFinished") }
    package final var hasScheduler: Bool { false }
    package var isStartedDirectly: Bool { false }
    package var schedulingHost: String? { nil }
    package final var isEnqueued: Bool {
        var mirror: Mirror? = Mirror(reflecting: self)
        while let m = mirror, m.subjectType != Operation.self { mirror = m.superclassMirror }
        for c in mirror?.children ?? .init([]) where c.label == "__state" { return "\(c.value)" != "initialized" }
        return true
    }
}
