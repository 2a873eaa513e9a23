import Foundation

/// A body that is kept in memory.
struct MemoryBody {
    private(set) var data = Data()

    var count: Int64 { Int64(data.count) }

    /// Forgets all bytes.
    ///
    /// - Parameter expected: the announced length, if there is one. No more than 64 MiB are reserved on the server's
    ///   word.
    mutating func startOver(expecting expected: Int64?) {
        data = Data()
        if let expected, expected > 4096, expected <= 64 << 20 { data.reserveCapacity(Int(expected)) }
    }

    mutating func append(_ block: UnsafeRawBufferPointer) {
        if data.isEmpty, block.count <= 4096, let base = block.baseAddress {
            data = Data(bytes: base, count: block.count)
        } else {
            data.append(contentsOf: block)
        }
    }
}
