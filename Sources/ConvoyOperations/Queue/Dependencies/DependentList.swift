/// The dependents of one operation.
///
/// A plain value without locks; its owner guards it. A single dependent, the common case, is stored in place.
struct DependentList<Object: AnyObject> {
    /// A dependent, and the position of the awaited operation in its list of dependencies.
    struct Dependent {
        let object: Object
        let position: Int
    }

    private var first: Dependent?
    private var others: ContiguousArray<Dependent> = []
    private var sweepAt = 64

    /// - Parameter isGone: whether a dependent has been released, so that it need not be notified.
    mutating func append(_ object: Object, position: Int, isGone: (Object) -> Bool) {
        let dependent = Dependent(object: object, position: position)
        if first == nil {
            first = dependent
            return
        }
        if others.count >= sweepAt {
            // Swept whenever the length has doubled, so that it is cheap and the length stays bounded.
            others.removeAll { isGone($0.object) }
            sweepAt = max(64, others.count * 2)
        }
        others.append(dependent)
    }

    /// Empties the list and hands its contents to the caller.
    mutating func removeAll() -> DependentList {
        var contents = DependentList()
        swap(&contents, &self)
        return contents
    }

    func forEach(_ body: (Dependent) -> Void) {
        if let first { body(first) }
        for dependent in others { body(dependent) }
    }
}
