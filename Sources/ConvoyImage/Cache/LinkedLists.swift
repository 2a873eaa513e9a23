#if Images
/// Doubly linked lists in one array. Appending and removing elements take constant time.
struct LinkedLists<Element> {
    /// The position of an element, valid until the element is removed.
    typealias Place = Int

    private struct Node {
        var element: Element?
        var list: Int
        var before: Int
        var after: Int
    }

    private var nodes: [Node] = []
    private var free: [Place] = []
    private var first: [Place]
    private var last: [Place]
    /// The number of elements in all lists.
    private(set) var count = 0

    /// Creates empty lists.
    init(count: Int = 1) {
        first = [Place](repeating: -1, count: count)
        last = first
    }

    /// The element at a position.
    subscript(place: Place) -> Element? {
        get { nodes[place].element }
        set { nodes[place].element = newValue }
    }

    func first(of list: Int = 0) -> Place? { first[list] < 0 ? nil : first[list] }
    func last(of list: Int = 0) -> Place? { last[list] < 0 ? nil : last[list] }

    /// Adds an element at the end of a list.
    mutating func append(_ element: Element, to list: Int = 0) -> Place {
        let place: Place
        if let reused = free.popLast() {
            place = reused
            nodes[place] = Node(element: element, list: list, before: -1, after: -1)
        } else {
            place = nodes.count
            nodes.append(Node(element: element, list: list, before: -1, after: -1))
        }
        link(place, to: list)
        count += 1
        return place
    }

    /// Removes an element.
    @discardableResult
    mutating func remove(_ place: Place) -> Element? {
        unlink(place)
        count -= 1
        let element = nodes[place].element.take()
        if count == 0 { (nodes, free) = ([], []) } else { free.append(place) }
        return element
    }

    /// Moves an element to the end of a list.
    mutating func move(_ place: Place, to list: Int = 0) {
        unlink(place)
        link(place, to: list)
    }

    private mutating func link(_ place: Place, to list: Int) {
        nodes[place].list = list
        nodes[place].before = last[list]
        nodes[place].after = -1
        if last[list] < 0 { first[list] = place } else { nodes[last[list]].after = place }
        last[list] = place
    }

    private mutating func unlink(_ place: Place) {
        let node = nodes[place]
        if node.before < 0 { first[node.list] = node.after } else { nodes[node.before].after = node.after }
        if node.after < 0 { last[node.list] = node.before } else { nodes[node.after].before = node.before }
    }
}
#endif
