/// A first-in, first-out queue.
///
/// Appending and removing take amortized constant time. Removed elements are released immediately, and the storage
/// stays proportional to the number of elements even if the queue never becomes empty.
@usableFromInline package struct Backlog<Element> {
    @usableFromInline var elements: [Element?] = []
    /// The index of the first element. All slots before it are nil.
    @usableFromInline var head = 0

    @inlinable package init() {}

    @inlinable package var count: Int { elements.count - head }
    @inlinable package var isEmpty: Bool { head == elements.count }
    /// The number of elements that fit into the current storage.
    @inlinable package var capacity: Int { elements.capacity }

    @inlinable package mutating func append(_ element: Element) { elements.append(element) }

    @inlinable package mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements[head].take()
        head += 1
        if head == elements.count {
            // Each slot is popped once. For one or two elements, this is the fastest way to keep the storage.
            if elements.capacity <= 1024 { while elements.popLast() != nil {} } else { elements = [] }
            head = 0
        } else if head >= 64, head >= count {
            // This moves at most as many elements as have been removed since the last compaction.
            if elements.capacity > 8 * count { elements = Array(elements[head...]) } else { elements.removeFirst(head) }
            head = 0
        }
        return element
    }
}
