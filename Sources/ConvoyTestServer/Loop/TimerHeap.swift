/// Deadlines of connections, the earliest first. A deadline is not removed when it is no longer wanted: its ticket has
/// then become stale, and whoever takes it out ignores it.
struct TimerHeap {
    struct Entry {
        /// Nanoseconds on the monotonic clock.
        var deadline: UInt64
        var connection: UInt64
        var ticket: UInt64
    }

    private var entries: [Entry] = []

    var earliest: UInt64? { entries.first?.deadline }

    mutating func insert(_ entry: Entry) {
        entries.append(entry)
        var child = entries.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard entries[child].deadline < entries[parent].deadline else { break }
            entries.swapAt(child, parent)
            child = parent
        }
    }

    /// The earliest entry, if it is due.
    mutating func takeDue(_ now: UInt64) -> Entry? {
        guard let first = entries.first, first.deadline <= now else { return nil }
        let last = entries.removeLast()
        guard !entries.isEmpty else { return first }
        entries[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < entries.count && entries[child].deadline < entries[least].deadline { least = child }
            guard least != parent else { return first }
            entries.swapAt(parent, least)
            parent = least
        }
    }
}
