import Foundation

/// The dependencies of one operation: in order, without duplicates, each with a flag that shows whether it has
/// finished.
///
/// A plain value without locks, guarded by its owner. Every call takes amortized constant time. A single dependency,
/// the common case, is stored inline; a short list is searched linearly; a longer one has an index. A removed
/// dependency leaves a gap, so that positions stay valid until the next compaction.
struct DependencyLinks {
    /// A dependency, or a gap, which has no operation.
    struct Link {
        var operation: Operation?
        var watcher: DependencyWatcher?
        var isFinished = false
    }

    /// The removed contents, to be released outside the lock.
    struct Contents {
        fileprivate(set) var only = Link()
        fileprivate(set) var several: ContiguousArray<Link> = []

        /// Stops all watchers and releases all operations. It is mutating because a copy would retain them.
        mutating func release() {
            // A watcher holds the operation it watches, which must be released below, not here.
            only.watcher.take()?.stop()
            if only.operation != nil { DeferredRelease.release(&only.operation) }
            guard !several.isEmpty else { return }
            for index in several.indices { several[index].watcher.take()?.stop() }
            var operations = several.compactMap(\.operation)
            several = []
            DeferredRelease.release(&operations)
        }
    }

    /// The only dependency, at position 0, unless the list has several.
    private var only = Link()
    private var several: Several?

    var operations: [Operation] {
        several?.links.compactMap(\.operation) ?? only.operation.map { [$0] } ?? []
    }

    var unfinished: [Operation] {
        if let several { return several.links.compactMap { $0.isFinished ? nil : $0.operation } }
        return only.isFinished ? [] : only.operation.map { [$0] } ?? []
    }

    /// Appends a dependency that has not finished, and returns its position; nil for a duplicate.
    mutating func append(_ operation: Operation) -> Int? {
        if let several { return several.append(operation) }
        if only.operation == nil {
            only = Link(operation: operation)
            return 0
        }
        guard only.operation !== operation else { return nil }
        several = Several([only, Link(operation: operation)])
        only = Link()
        return 1
    }

    /// Removes a dependency. Returns whether it was unfinished, and its watcher; nil if it is not in the list.
    mutating func remove(_ operation: Operation) -> (wasUnfinished: Bool, watcher: DependencyWatcher?)? {
        let removed: Link
        if let several {
            guard let link = several.remove(operation) else { return nil }
            removed = link
        } else {
            guard only.operation === operation else { return nil }
            removed = only
            only = Link()
        }
        return (!removed.isFinished, removed.watcher)
    }

    /// Marks a dependency as finished. Returns its watcher; nil if it is not in the list or had already finished.
    mutating func finish(_ operation: Operation, near position: Int) -> DependencyWatcher?? {
        change(operation, near: position) { link in
            guard !link.isFinished else { return .none }
            link.isFinished = true
            return .some(link.watcher.take())
        } ?? .none
    }

    /// Stores the watcher of an unfinished dependency. Returns false if the dependency is missing or no longer exists.
    mutating func attach(_ watcher: DependencyWatcher, to operation: Operation, near position: Int) -> Bool {
        change(operation, near: position) { link in
            guard !link.isFinished, link.watcher == nil else { return false }
            link.watcher = watcher
            return true
        } ?? false
    }

    /// Empties the list and passes its contents to the caller, to be released outside its lock.
    mutating func removeAll() -> Contents {
        var contents = Contents()
        swap(&contents.only, &only)
        if let several {
            swap(&contents.several, &several.links)
            self.several = nil
        }
        return contents
    }

    private mutating func change<Result>(
        _ operation: Operation, near position: Int, _ body: (inout Link) -> Result
    ) -> Result? {
        if let several {
            guard let position = several.position(of: operation, near: position) else { return nil }
            return body(&several.links[position])
        }
        return only.operation === operation ? body(&only) : nil
    }

    /// A list of at least two dependencies, owned by one value. It is a class, so that a shorter list takes no space
    /// for it.
    private final class Several {
        private static let indexedFrom = 9

        var links: ContiguousArray<Link>
        private var positions = PositionTable()
        private var gaps = 0

        init(_ links: ContiguousArray<Link>) { self.links = links }

        func append(_ operation: Operation) -> Int? {
            guard position(of: operation) == nil else { return nil }
            links.append(Link(operation: operation))
            let position = links.count - 1
            if positions.hasRoom {
                positions.insert(position, for: operation)
            } else if links.count >= Self.indexedFrom {
                reindex()
            }
            return position
        }

        func remove(_ operation: Operation) -> Link? {
            guard let position = position(of: operation) else { return nil }
            let link = links[position]
            links[position] = Link(isFinished: true)
            gaps += 1
            if gaps > 16, gaps > links.count / 2 { compact() }
            return link
        }

        func position(of operation: Operation, near hint: Int) -> Int? {
            hint < links.count && links[hint].operation === operation ? hint : position(of: operation)
        }

        private func position(of operation: Operation) -> Int? {
            if positions.isEmpty {
                return links.firstIndex { $0.operation === operation }
            }
            return positions.position(of: operation) { links[$0].operation === operation }
        }

        private func compact() {
            links.removeAll { $0.operation == nil }
            gaps = 0
            reindex()
        }

        private func reindex() {
            positions = PositionTable()
            guard links.count >= Self.indexedFrom else { return }
            positions = PositionTable(for: links.count)
            for (position, link) in links.enumerated() {
                if let operation = link.operation { positions.insert(position, for: operation) }
            }
        }
    }
}

/// The dependents of one operation.
///
/// A plain value without locks, guarded by its owner. A single dependent, the common case, is stored inline.
struct DependentList<Object: AnyObject> {
    /// A dependent, and the position of the awaited operation in its list of dependencies.
    struct Dependent {
        let object: Object
        let position: Int
    }

    private var first: Dependent?
    private var others: ContiguousArray<Dependent> = []
    private var sweepAt = 64

    /// - Parameter isGone: A closure that returns whether a dependent has been released and need not be notified.
    mutating func append(_ object: Object, position: Int, isGone: (Object) -> Bool) {
        let dependent = Dependent(object: object, position: position)
        if first == nil {
            first = dependent
            return
        }
        if others.count >= sweepAt {
            // Sweep whenever the length has doubled, so that the cost is low and the length stays bounded.
            others.removeAll { isGone($0.object) }
            sweepAt = max(64, others.count * 2)
        }
        others.append(dependent)
    }

    /// Empties the list and passes its contents to the caller.
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

/// A hash table of the positions of objects in a list, by identity.
///
/// It stores only positions, in a quarter of the memory that a dictionary would use. The hash does not have to resist
/// attackers, who cannot choose addresses. The position of a removed object stays until the table is rebuilt, and
/// matches nothing.
struct PositionTable {
    private var cells: [Int32] = []
    private var count = 0

    init() {}

    /// Creates a table with room for three times the expected number of objects, so that it is rarely rebuilt.
    init(for expected: Int) {
        var size = 32
        while size < expected * 6 { size *= 2 }
        cells = Array(repeating: -1, count: size)
    }

    var isEmpty: Bool { count == 0 }
    var hasRoom: Bool { (count + 1) * 2 <= cells.count }

    /// - Precondition: The table has room.
    mutating func insert(_ position: Int, for object: AnyObject) {
        var cell = first(object)
        while cells[cell] >= 0 { cell = (cell + 1) & (cells.count - 1) }
        cells[cell] = Int32(position)
        count += 1
    }

    func position(of object: AnyObject, matches: (Int) -> Bool) -> Int? {
        var cell = first(object)
        while cells[cell] >= 0 {
            if matches(Int(cells[cell])) { return Int(cells[cell]) }
            cell = (cell + 1) & (cells.count - 1)
        }
        return nil
    }

    private func first(_ object: AnyObject) -> Int {
        // The low bits of an address are always 0 because of alignment; the multiplication mixes the others.
        let bits = UInt64(UInt(bitPattern: ObjectIdentifier(object))) >> 4
        return Int(truncatingIfNeeded: (bits &* 0x9E37_79B9_7F4A_7C15) >> 32) & (cells.count - 1)
    }
}

/// The release of operations without recursion.
///
/// An operation owns its dependencies. Releasing the end of a long chain would nest one `deinit` inside another until
/// the stack overflows (with Foundation's own operations at about 50,000). Here the outermost release on a thread
/// collects the operations that inner releases pass on, and releases them in a loop.
enum DeferredRelease {
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// Releases one operation. The caller must not have copied the reference.
    static func release(_ operation: inout Operation?) {
        guard let outer else { return collect { operation = nil } }
        if let operation { outer.pointee.append(operation) }
        operation = nil
    }

    /// Releases operations. The caller must not have copied the references.
    static func release(_ operations: inout [Operation]) {
        guard let outer else { return collect { operations = [] } }
        outer.pointee.append(contentsOf: operations)
        operations = []
    }

    /// The operations that the outermost release on this thread has yet to release.
    private static var outer: UnsafeMutablePointer<[Operation]>? {
        pthread_getspecific(key)?.assumingMemoryBound(to: [Operation].self)
    }

    /// Runs a release, and then releases the operations that nested releases have added to the list.
    private static func collect(_ release: () -> Void) {
        var pile: [Operation] = []
        withUnsafeMutablePointer(to: &pile) { pile in
            pthread_setspecific(key, pile)
            release()
            while pile.pointee.popLast() != nil {}
            pthread_setspecific(key, nil)
        }
    }
}
