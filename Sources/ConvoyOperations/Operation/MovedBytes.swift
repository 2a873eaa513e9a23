/// Bytes that have moved since somebody was told last. Thousands of blocks may come in a second: they are summed up until
/// whoever is told has time.
package struct MovedBytes: Sendable {
    /// Since the last time.
    package private(set) var bytes: Int64 = 0
    package private(set) var total: Int64 = 0
    package private(set) var expected: Int64?
    private var isWaiting = false

    package init() {}

    /// Adds bytes. Returns whether somebody is to be told, who then calls ``take()``; not where one is to be already.
    package mutating func add(_ bytes: Int64, total: Int64, expected: Int64?) -> Bool {
        self.bytes += bytes
        (self.total, self.expected) = (total, expected)
        defer { isWaiting = true }
        return !isWaiting
    }

    /// Sets how many there are, of which nobody is to be told.
    package mutating func set(total: Int64, expected: Int64?) { (self.total, self.expected) = (total, expected) }

    /// What is to be told, which is nothing new from now on.
    package mutating func take() -> MovedBytes {
        defer { (bytes, isWaiting) = (0, false) }
        return self
    }
}
