/// The bytes from the wire that are given to a chain of layers, and how many it has used in all.
struct WireInput {
    var rest: UnsafeRawBufferPointer
    private(set) var usedCount: Int64

    init(_ bytes: UnsafeRawBufferPointer, usedCount: Int64) {
        rest = bytes
        self.usedCount = usedCount
    }

    mutating func use(_ count: Int) {
        rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        usedCount += Int64(count)
    }
}
