/// A first-in, first-out queue.
///
/// Appending and removing take amortised constant time. A removed element is released at once, and the storage stays
/// proportional to the number of elements, even if the queue never becomes empty.
@usableFromInline package struct Backlog<Element> {
    @usableFromInline var elements: [Element?] = []
    /// The index of the first element. The ones before it are nil.
    @usableFromInline var head = 0

    @inlinable package init() {}

    @inlinable package var count: Int { elements.count - head }
    @inlinable package var isEmpty: Bool { head == elements.count }
    /// How many elements the storage has room for.
    @inlinable package var capacity: Int { elements.capacity }

    @inlinable package mutating func append(_ element: Element) { elements.append(element) }

    @inlinable package mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements[head].take()
        head += 1
        if head == elements.count {
            // Each is removed once, and for one or two that is the quickest way to keep the storage.
            if elements.capacity <= 1024 { while elements.popLast() != nil {} } else { elements = [] }
            head = 0
        } else if head >= 64, head >= count {
            // At most as many elements are moved as were removed since the last time.
            if elements.capacity > 8 * count { elements = Array(elements[head...]) } else { elements.removeFirst(head) }
            head = 0
        }
        return element
    }
}
