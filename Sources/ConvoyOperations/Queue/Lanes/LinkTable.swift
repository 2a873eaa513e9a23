/// A list threaded through a ``LinkTable``: its first and its last index, or -1.
struct IndexList {
    fileprivate(set) var head: Int32 = -1
    fileprivate(set) var tail: Int32 = -1

    var isEmpty: Bool { head < 0 }
}

/// Doubly linked lists of slot indices. Each index is in at most one list of the table at a time.
///
/// Indices instead of references: appending, removing and moving cost a few stores, no allocation
/// and no reference counting, and a long list is freed in one piece.
struct LinkTable {
    private var links: ContiguousArray<(previous: Int32, next: Int32)> = []

    /// Makes room for indices below `count`.
    mutating func grow(to count: Int) {
        while links.count < count { links.append((-1, -1)) }
    }

    mutating func removeAll() {
        links = []
    }

    func next(after index: Int32) -> Int32 {
        links[Int(index)].next
    }

    func previous(before index: Int32) -> Int32 {
        links[Int(index)].previous
    }

    mutating func prepend(_ index: Int32, to list: inout IndexList) {
        links[Int(index)] = (-1, list.head)
        if list.head < 0 { list.tail = index } else { links[Int(list.head)].previous = index }
        list.head = index
    }

    mutating func append(_ index: Int32, to list: inout IndexList) {
        links[Int(index)] = (list.tail, -1)
        if list.tail < 0 { list.head = index } else { links[Int(list.tail)].next = index }
        list.tail = index
    }

    mutating func remove(_ index: Int32, from list: inout IndexList) {
        let (previous, next) = links[Int(index)]
        if previous < 0 { list.head = next } else { links[Int(previous)].next = next }
        if next < 0 { list.tail = previous } else { links[Int(next)].previous = previous }
        links[Int(index)] = (-1, -1)
    }

    mutating func popFirst(_ list: inout IndexList) -> Int32? {
        guard !list.isEmpty else { return nil }
        let index = list.head
        remove(index, from: &list)
        return index
    }
}
