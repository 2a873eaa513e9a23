/// The operations that wait for one operation, held weakly: an operation that its owner drops before
/// it ever ran is not kept alive by what it waits for.
///
/// A plain value without locks; its owner guards it.
struct DependentList<Operation: AnyObject> {
    /// A dependent, and where in its list of dependencies it keeps the operation it waits for.
    struct Dependent {
        weak var operation: Operation?
        var position: Int
    }

    private var dependents: ContiguousArray<Dependent> = []
    private var pruneAt = 64

    mutating func append(_ operation: Operation, position: Int) {
        if dependents.count >= pruneAt {
            // Dropped operations leave empty places; sweeping at doubled lengths keeps that cheap and bounded.
            dependents.removeAll { $0.operation == nil }
            pruneAt = max(64, dependents.count * 2)
        }
        dependents.append(Dependent(operation: operation, position: position))
    }

    mutating func removeAll() -> ContiguousArray<Dependent> {
        guard !dependents.isEmpty else { return [] }
        defer { dependents = [] }
        return dependents
    }
}
