/// Elements that wait their turn: first in, first out.
///
/// Both ends cost constant time on average. What is taken out is let go of at once, and the storage stays in
/// proportion to what waits, also where it never becomes empty.
struct Backlog<Element> {
    private var elements: [Element?] = []
    /// Where the first one is. Before it there is nothing.
    private var head = 0

    var count: Int { elements.count - head }
    var isEmpty: Bool { head == elements.count }
    /// How many elements the storage has room for.
    var capacity: Int { elements.capacity }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements[head].take()
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.capacity <= 1024)
            head = 0
        } else if head >= 64, head >= count {
            // As many are moved as have been taken since the last time, at most.
            if elements.capacity > 8 * count { elements = Array(elements[head...]) } else { elements.removeFirst(head) }
            head = 0
        }
        return element
    }
}
