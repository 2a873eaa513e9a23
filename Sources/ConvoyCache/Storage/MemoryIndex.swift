/// The stored responses in memory, by address. The least recently used ones are evicted first.
///
/// With a disk, it holds copies of the responses stored there, and briefly those about to be written.
struct MemoryIndex {
    /// An address with its stored responses, in a list ordered by use.
    private final class Node {
        let address: String
        var entries: [CacheEntry] = []
        /// Whether all responses that the disk has for this address are in memory.
        var isComplete: Bool
        /// A number that changes with the entries, so that a concurrent read of the disk can detect the change. Unique
        /// among nodes.
        var revision: UInt64 = 0
        var cost = 0
        // The dictionary owns the nodes. Each leaves the list before it leaves the dictionary.
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

    /// A snapshot of the state of an address, to detect later changes.
    struct Snapshot {
        fileprivate var revision: UInt64?
        fileprivate var removals: UInt64
    }

    /// The maximum number of responses for one address, so that an origin whose responses vary by everything does not
    /// fill the cache.
    static let variantLimit = 32

    private(set) var usage = 0
    private let capacity: Int
    private let hasDisk: Bool
    private var nodes: [String: Node] = [:]
    /// The number of changes to entries.
    private var changes: UInt64 = 0
    /// The number of removals of entries that may not be in memory.
    private var removals: UInt64 = 0
    private unowned(unsafe) var oldest: Node?
    private unowned(unsafe) var newest: Node?

    init(capacity: Int, hasDisk: Bool) {
        self.capacity = max(0, capacity)
        self.hasDisk = hasDisk
    }

    var entryCount: Int { nodes.values.reduce(0) { $0 + $1.entries.count } }

    /// Returns the entries of an address; nil if the address is not in memory.
    mutating func find(_ address: String) -> Found? {
        guard let node = nodes[address] else { return hasDisk ? nil : Found(entries: [], isComplete: true) }
        touch(node)
        return Found(entries: node.entries, isComplete: node.isComplete)
    }

    /// Adds a response, replacing the one to the same request.
    ///
    /// - Returns: False, without a change, if the existing response is newer.
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

    /// Replaces a response by its confirmed version.
    mutating func update(_ record: CacheRecord) {
        guard let node = nodes[record.address] else { return removals += 1 }
        change(node) { entries in
            for index in entries.indices where entries[index].record.id == record.id { entries[index].record = record }
        }
    }

    /// Stores the body of a response that was read from the disk.
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

    /// Removes all responses of an address, which is then known to be empty.
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
        oldest = nil
        newest = nil
        usage = 0
    }

    /// Returns a snapshot of an address. Call this before reading the disk.
    func snapshot(_ address: String) -> Snapshot { Snapshot(revision: nodes[address]?.revision, removals: removals) }

    /// Adds the entries that the disk has for an address, unless memory has changed since `snapshot`.
    mutating func install(_ entries: [CacheEntry], of address: String, ifUnchangedSince snapshot: Snapshot) {
        guard nodes[address]?.revision == snapshot.revision, removals == snapshot.removals else { return }
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
        // A concurrent read of the disk may have missed this entry.
        removals += 1
        unlink(node)
        usage -= node.cost
        nodes[node.address] = nil
    }
}
