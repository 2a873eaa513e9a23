/// Doubly linked lists of slot indices. Each index is in at most one list of the table at a time.
///
/// It uses indices instead of references: appending, removing and moving cost a few stores, without allocation or
/// reference counting, and a long list is freed at once.
struct LinkTable {
    /// A list in the table: its first and its last index, or -1.
    struct List {
        fileprivate(set) var head: Int32 = -1
        fileprivate(set) var tail: Int32 = -1

        var isEmpty: Bool { head < 0 }
    }

    private struct Neighbours {
        var previous: Int32 = -1
        var next: Int32 = -1
    }

    private var links: ContiguousArray<Neighbours> = []

    /// Makes room for one more index.
    mutating func grow() {
        links.appendGrowingByAQuarter(Neighbours())
    }

    /// Makes room for indices below `count`.
    mutating func grow(to count: Int) {
        while links.count < count { grow() }
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

    mutating func prepend(_ index: Int32, to list: inout List) {
        links[Int(index)] = Neighbours(next: list.head)
        if list.head < 0 { list.tail = index } else { links[Int(list.head)].previous = index }
        list.head = index
    }

    mutating func append(_ index: Int32, to list: inout List) {
        links[Int(index)] = Neighbours(previous: list.tail)
        if list.tail < 0 { list.head = index } else { links[Int(list.tail)].next = index }
        list.tail = index
    }

    mutating func remove(_ index: Int32, from list: inout List) {
        let link = links[Int(index)]
        if link.previous < 0 { list.head = link.next } else { links[Int(link.previous)].next = link.next }
        if link.next < 0 { list.tail = link.previous } else { links[Int(link.next)].previous = link.previous }
        links[Int(index)] = Neighbours()
    }

    mutating func popFirst(_ list: inout List) -> Int32? {
        guard !list.isEmpty else { return nil }
        let index = list.head
        remove(index, from: &list)
        return index
    }
}

extension ContiguousArray {
    /// Appends an element. A full array grows by a quarter, and is not doubled, as there may be hundreds of thousands
    /// of slots.
    mutating func appendGrowingByAQuarter(_ element: Element) {
        if count == capacity { reserveCapacity(count + Swift.max(16, count / 4)) }
        append(element)
    }
}
