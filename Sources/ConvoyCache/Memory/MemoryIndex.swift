/// The stored responses that are in memory, by address, of which those go first that have not been used for longest.
///
/// Beside a disk it holds copies of what is there, and, for a moment, what is about to be written.
struct MemoryIndex {
    /// An address and its stored responses, and its place in the order of use.
    private final class Node {
        let address: String
        var entries: [CacheEntry] = []
        /// Whether there is nothing on the disk for this address that is not here.
        var isComplete: Bool
        /// Changes with the entries, so that who has read the disk meanwhile notices. No other node has the same.
        var revision: UInt64 = 0
        var cost = 0
        // The dictionary owns the nodes; each is taken out of the chain before it is taken out of there.
        unowned(unsafe) var older: Node?
        unowned(unsafe) var newer: Node?

        init(_ address: String, isComplete: Bool) {
            self.address = address
            self.isComplete = isComplete
        }
    }

    struct Found {
        var entries: [CacheEntry]
        var isComplete: Bool
    }

    /// What was here of an address at a time, and what was taken away until then.
    struct Mark {
        fileprivate var revision: UInt64?
        fileprivate var removals: UInt64
    }

    /// More responses for one address are not kept: an origin whose responses vary by everything must not fill the
    /// cache with one address.
    static let variantLimit = 32

    private(set) var usage = 0
    private let capacity: Int
    private let hasDisk: Bool
    private var nodes: [String: Node] = [:]
    /// The number of changes to entries.
    private var changes: UInt64 = 0
    /// How often something was taken away that may not have been here, or was forgotten.
    private var removals: UInt64 = 0
    private unowned(unsafe) var oldest: Node?
    private unowned(unsafe) var newest: Node?

    init(capacity: Int, hasDisk: Bool) {
        self.capacity = max(0, capacity)
        self.hasDisk = hasDisk
    }

    var entryCount: Int { nodes.values.reduce(0) { $0 + $1.entries.count } }

    /// What is known of an address; nil if nothing is.
    mutating func find(_ address: String) -> Found? {
        guard let node = nodes[address] else { return hasDisk ? nil : Found(entries: [], isComplete: true) }
        touch(node)
        return Found(entries: node.entries, isComplete: node.isComplete)
    }

    /// Adds a response, in place of the one to the same request.
    ///
    /// - Returns: false if the present one is newer: then nothing has changed.
    mutating func store(_ entry: CacheEntry) -> Bool {
        let node = node(entry.record.address)
        for other in node.entries where other.record.isReplaced(by: entry.record) {
            if other.record.isNewer(than: entry.record) { return false }
        }
        change(node) { entries in
            entries.removeAll { $0.record.isReplaced(by: entry.record) }
            if entries.count >= Self.variantLimit,
                let last = entries.indices.min(by: { entries[$0].record.received.wall < entries[$1].record.received.wall })
            {
                entries.remove(at: last)
            }
            entries.append(entry)
        }
        return true
    }

    /// Puts a confirmed response in the place of what it was.
    mutating func update(_ record: CacheRecord) {
        guard let node = nodes[record.address] else { return removals += 1 }
        change(node) { entries in
            for index in entries.indices where entries[index].record.id == record.id { entries[index].record = record }
        }
    }

    /// Keeps the body of a response that has been read from the disk.
    mutating func setBody(_ body: StoredBody, of record: CacheRecord) {
        guard let node = nodes[record.address] else { return }
        change(node, isNew: false) { entries in
            for index in entries.indices where entries[index].record.id == record.id { entries[index].body = body }
        }
    }

    mutating func remove(_ id: Int64, _ address: String) {
        guard let node = nodes[address], node.entries.contains(where: { $0.record.id == id })
        else { return removals += 1 }
        change(node) { $0.removeAll { $0.record.id == id } }
    }

    /// Forgets all responses of an address, those on the disk too.
    mutating func removeAll(of address: String) {
        guard hasDisk || nodes[address] != nil else { return }
        let node = node(address)
        node.isComplete = true
        change(node) { $0 = [] }
    }

    mutating func removeAll(where isRemoved: (CacheRecord) -> Bool) {
        removals += 1
        for node in Array(nodes.values) where node.entries.contains(where: { isRemoved($0.record) }) {
            change(node) { $0.removeAll { isRemoved($0.record) } }
        }
    }

    mutating func removeAll() {
        removals += 1
        nodes = [:]
        (oldest, newest, usage) = (nil, nil, 0)
    }

    /// To be taken before the disk is read.
    func mark(_ address: String) -> Mark { Mark(revision: nodes[address]?.revision, removals: removals) }

    /// Takes over what the disk has of an address, if nothing has changed here since before it was read.
    mutating func install(_ entries: [CacheEntry], of address: String, ifUnchangedSince mark: Mark) {
        guard nodes[address]?.revision == mark.revision, removals == mark.removals else { return }
        let node = node(address)
        node.isComplete = true
        change(node, isNew: false) { $0 = entries }
    }

    // MARK: The order of use

    private mutating func node(_ address: String) -> Node {
        if let node = nodes[address] { return node }
        let node = Node(address, isComplete: !hasDisk)
        nodes[address] = node
        link(node)
        return node
    }

    private mutating func change(_ node: Node, isNew: Bool = true, _ body: (inout [CacheEntry]) -> Void) {
        body(&node.entries)
        if isNew {
            changes += 1
            node.revision = changes
        }
        let cost = node.entries.reduce(128 + node.address.utf8.count) { $0 + $1.cost }
        usage += cost - node.cost
        node.cost = cost
        if node.entries.isEmpty, !hasDisk { drop(node) } else { touch(node) }
        while usage > capacity, let oldest { drop(oldest) }
    }

    private mutating func touch(_ node: Node) {
        guard newest !== node else { return }
        unlink(node)
        link(node)
    }

    private mutating func link(_ node: Node) {
        node.older = newest
        node.newer = nil
        newest?.newer = node
        newest = node
        if oldest == nil { oldest = node }
    }

    private mutating func unlink(_ node: Node) {
        if let older = node.older { older.newer = node.newer } else { oldest = node.newer }
        if let newer = node.newer { newer.older = node.older } else { newest = node.older }
        node.older = nil
        node.newer = nil
    }

    private mutating func drop(_ node: Node) {
        // Who reads the disk now may have missed what was here.
        removals += 1
        unlink(node)
        usage -= node.cost
        nodes[node.address] = nil
    }
}
