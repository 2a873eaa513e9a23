/// Where the bytes of a stored body are.
enum StoredBody: Sendable {
    case memory([UInt8])

    var count: Int {
        switch self {
        case .memory(let bytes): bytes.count
        }
    }

    var bytes: [UInt8]? {
        switch self {
        case .memory(let bytes): bytes
        }
    }

    func read(at offset: Int, count: Int, _ then: @escaping @Sendable (Result<[UInt8], CacheError>) -> Void) {
        switch self {
        case .memory(let bytes):
            let start = min(max(offset, 0), bytes.count)
            then(.success(Array(bytes[start...].prefix(max(count, 0)))))
        }
    }
}
