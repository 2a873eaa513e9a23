import ConvoySupport

/// The binary encoding of cache records. The address and the partition are stored in separate columns.
enum RecordCoding {
    private static let version: UInt8 = 1

    static func encode(_ record: CacheRecord) -> [UInt8] {
        var writer = ByteWriter()
        writer.bytes.reserveCapacity(record.cost)
        writer.bytes.append(version)
        writer.integer(Int64(record.head.statusCode))
        for time in [record.requested, record.received] {
            writer.integer(time.wall)
            writer.integer(time.up)
        }
        writer.integer(record.boot)
        writer.integer(Int64(record.length))
        writer.count(record.head.fields.count)
        for field in record.head.fields {
            writer.text(field.name)
            writer.text(field.value)
        }
        writer.count(record.vary.fields.count)
        for field in record.vary.fields {
            writer.text(field.name)
            writer.bytes.append(field.value == nil ? 0 : 1)
            writer.text(field.value ?? "")
        }
        writer.count(record.userInfo.count)
        // Sort the entries, so that equal records have equal bytes.
        for (key, value) in record.userInfo.sorted(by: { $0.key < $1.key }) {
            writer.text(key)
            writer.text(value)
        }
        return writer.bytes
    }

    /// - Returns: Nil for bytes that are not a record of this version.
    static func decode(
        _ bytes: UnsafeRawBufferPointer, id: Int64, address: String, partition: String, used: Int64
    ) -> CacheRecord? {
        var reader = ByteReader(bytes)
        guard reader.byte() == version, let status = reader.integer(), (200...599).contains(status),
            let requested = reader.time(), let received = reader.time(), let boot = reader.integer(),
            let length = reader.integer(), length >= 0,
            let fields = reader.list({ reader -> (name: String, value: String)? in
                guard let name = reader.text(), let value = reader.text() else { return nil }
                return (name, value)
            }),
            let vary = reader.list({ reader -> VaryKey.Field? in
                guard let name = reader.text(), let flag = reader.byte(), let value = reader.text() else { return nil }
                return VaryKey.Field(name: name, value: flag == 0 ? nil : value)
            }),
            let userInfo = reader.list({ reader -> (String, String)? in
                guard let key = reader.text(), let value = reader.text() else { return nil }
                return (key, value)
            }),
            reader.isAtEnd
        else { return nil }
        return CacheRecord(
            id: id, address: address, partition: partition, vary: VaryKey(fields: vary),
            head: CachedHead(statusCode: Int(status), fields: fields), requested: requested, received: received,
            boot: boot, length: Int(length), userInfo: Dictionary(userInfo) { first, _ in first },
            used: used)
    }

    /// Returns a checksum of all parts of a record, stored to detect damage.
    static func checksum(_ bytes: UnsafeRawBufferPointer, id: Int64, address: String, partition: String) -> Int64 {
        var hash = XXHash64.hash(bytes)
        for text in [address, partition] {
            var text = text
            hash = hash &* 31 &+ text.withUTF8 { XXHash64.hash(UnsafeRawBufferPointer($0)) }
        }
        return Int64(bitPattern: hash) ^ id
    }
}

private struct ByteWriter {
    var bytes: [UInt8] = []

    mutating func integer(_ value: Int64) { withUnsafeBytes(of: value.littleEndian) { bytes += $0 } }

    mutating func count(_ value: Int) { withUnsafeBytes(of: UInt32(clamping: value).littleEndian) { bytes += $0 } }

    mutating func text(_ text: String) {
        count(text.utf8.count)
        bytes += text.utf8
    }
}

/// A reader of the bytes that `ByteWriter` has written. It returns nil for invalid bytes.
private struct ByteReader {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { offset == bytes.count }

    mutating func byte() -> UInt8? {
        guard offset < bytes.count else { return nil }
        defer { offset += 1 }
        return bytes[offset]
    }

    mutating func integer() -> Int64? {
        guard bytes.count - offset >= 8 else { return nil }
        defer { offset += 8 }
        return Int64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int64.self))
    }

    mutating func time() -> CacheTime? {
        guard let wall = integer(), let up = integer() else { return nil }
        // Keep numbers far from the limits of the type, so that sums and differences cannot overflow.
        let limit = Int64.max / 8
        guard abs(clamped(wall)) < limit, abs(clamped(up)) < limit else { return nil }
        return CacheTime(wall: wall, up: up)
    }

    private func clamped(_ value: Int64) -> Int64 { max(value, -.max) }

    private mutating func count() -> Int? {
        guard bytes.count - offset >= 4 else { return nil }
        defer { offset += 4 }
        let value = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        // Each member takes at least a byte, so a larger count indicates damage.
        return Int(value) <= bytes.count - offset - 4 ? Int(value) : nil
    }

    mutating func text() -> String? {
        guard let count = count() else { return nil }
        defer { offset += count }
        return String(decoding: bytes[offset..<offset + count], as: UTF8.self)
    }

    mutating func list<Member>(_ member: (inout ByteReader) -> Member?) -> [Member]? {
        guard let count = count() else { return nil }
        var members: [Member] = []
        for _ in 0..<count {
            guard let next = member(&self) else { return nil }
            members.append(next)
        }
        return members
    }
}
