import Foundation

/// The dependencies of one operation: in order, without duplicates, each with "has it finished".
///
/// A plain value without locks; its owner guards it. Every call takes constant time (amortised): a
/// short list is searched in line, a longer one gets an index. A removed dependency leaves a gap, so
/// that the position handed out for a dependency stays good until the next compaction.
struct DependencyLinks {
    private struct Link {
        var operation: Operation?
        var watcher: DependencyWatcher?
        var isFinished = false
    }

    private static let indexedFrom = 9

    private var links: ContiguousArray<Link> = []
    private var positions = PositionTable()
    private var gaps = 0

    var isEmpty: Bool { links.count == gaps }
    var operations: [Operation] { links.compactMap(\.operation) }

    /// Appends a dependency that has not finished, and returns its position; nil if it is there already.
    mutating func append(_ operation: Operation) -> Int? {
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

    /// Removes a dependency. Returns nil if it is not there; otherwise whether it was unfinished, and its watcher.
    mutating func remove(_ operation: Operation) -> (wasUnfinished: Bool, watcher: DependencyWatcher?)? {
        guard let position = position(of: operation) else { return nil }
        let link = links[position]
        links[position] = Link(operation: nil, watcher: nil, isFinished: true)
        gaps += 1
        if gaps > 16, gaps > links.count / 2 { compact() }
        return (!link.isFinished, link.watcher)
    }

    /// Marks a dependency finished. Returns nil if it is not there or was finished before; otherwise its watcher.
    mutating func finish(_ operation: Operation, near hint: Int) -> DependencyWatcher?? {
        var position = hint
        if position >= links.count || links[position].operation !== operation {
            guard let found = self.position(of: operation) else { return .none }
            position = found
        }
        guard !links[position].isFinished else { return .none }
        links[position].isFinished = true
        let watcher = links[position].watcher
        links[position].watcher = nil
        return .some(watcher)
    }

    /// Keeps the watcher of an unfinished dependency. False if there is no such dependency (any more).
    mutating func attach(_ watcher: DependencyWatcher, to operation: Operation) -> Bool {
        guard let position = position(of: operation), !links[position].isFinished,
            links[position].watcher == nil
        else { return false }
        links[position].watcher = watcher
        return true
    }

    /// Empties the list and hands its contents to the caller, to be released outside its lock.
    mutating func removeAll() -> (operations: [Operation], watchers: [DependencyWatcher]) {
        guard !links.isEmpty else { return ([], []) }
        let operations = links.compactMap(\.operation)
        let watchers = links.compactMap(\.watcher)
        links = []
        positions = PositionTable()
        gaps = 0
        return (operations, watchers)
    }

    private func position(of operation: Operation) -> Int? {
        if positions.isEmpty {
            return links.firstIndex { $0.operation === operation }
        }
        return positions.position(of: operation) { links[$0].operation === operation }
    }

    private mutating func compact() {
        links.removeAll { $0.operation == nil }
        gaps = 0
        reindex()
    }

    private mutating func reindex() {
        positions = PositionTable()
        guard links.count >= Self.indexedFrom else { return }
        positions = PositionTable(for: links.count)
        for (position, link) in links.enumerated() {
            if let operation = link.operation { positions.insert(position, for: operation) }
        }
    }
}
