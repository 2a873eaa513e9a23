import Foundation

/// Looks up, by reflection, what Foundation keeps to itself about an operation.
///
/// Slow (microseconds); for rare paths only.
enum OperationReflection {
    /// Whether the operation was handed to a Foundation `OperationQueue` and has not been started since.
    /// Nil if this version of Foundation stores that in another way.
    static func isInFoundationQueue(_ operation: Operation) -> Bool? {
        var mirror: Mirror? = Mirror(reflecting: operation)
        while let current = mirror, current.subjectType != Operation.self {
            mirror = current.superclassMirror
        }
        guard let mirror else { return nil }
        var isQueued: Bool?
        for child in mirror.children {
            switch child.label {
            case "__queue":
                // An optional unmanaged reference: with no child it is nil.
                if Mirror(reflecting: child.value).children.first != nil { return true }
                isQueued = isQueued ?? false
            case "__state":
                // Between its first and its last moment in a queue the operation may not know the queue yet.
                let state = String(describing: child.value)
                if state == "enqueuing" || state == "enqueued" || state == "dispatching" { return true }
                isQueued = isQueued ?? false
            default: continue
            }
        }
        return isQueued
    }
}
