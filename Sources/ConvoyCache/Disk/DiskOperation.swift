/// A change that is to be made to the index on the disk.
enum DiskOperation: Sendable {
    /// Adds a response with a small body.
    case put(CacheRecord, [UInt8])
    /// Adds a response whose body is in a file.
    case putFile(CacheRecord, checksums: [UInt64])
    /// Writes the head of a response anew that the origin has confirmed.
    case update(CacheRecord)
    case remove(id: Int64, address: String)
    case removeAddress(String)
    /// Removes all that arrived at or after a time, in milliseconds since 1970.
    case removeSince(Int64)
    case removeAll

    /// Whether it takes something away. Such an operation must not be lost: what it removes must not come back.
    var isRemoval: Bool {
        switch self {
        case .put, .putFile, .update: false
        case .remove, .removeAddress, .removeSince, .removeAll: true
        }
    }

    /// The address whose responses it changes; nil if it changes those of many.
    var address: String? {
        switch self {
        case .put(let record, _), .putFile(let record, _), .update(let record): record.address
        case .remove(_, let address), .removeAddress(let address): address
        case .removeSince, .removeAll: nil
        }
    }

    /// What is to be done in its place once the disk has refused it: what it would have replaced must not be found
    /// again.
    var remainder: DiskOperation {
        switch self {
        case .put(let record, _), .putFile(let record, _): .removeAddress(record.address)
        case .update(let record): .remove(id: record.id, address: record.address)
        case .remove, .removeAddress, .removeSince, .removeAll: self
        }
    }

    /// How many bytes wait in memory for it.
    var size: Int {
        switch self {
        case .put(let record, let body): record.cost + body.count
        case .putFile(let record, _), .update(let record): record.cost
        case .remove, .removeAddress, .removeSince, .removeAll: 64
        }
    }

    /// Whether it removes a response.
    func removes(_ record: CacheRecord) -> Bool {
        switch self {
        case .put, .putFile, .update: false
        case .remove(let id, _): id == record.id
        case .removeAddress(let address): address == record.address
        case .removeSince(let time): record.received.wall >= time
        case .removeAll: true
        }
    }
}
