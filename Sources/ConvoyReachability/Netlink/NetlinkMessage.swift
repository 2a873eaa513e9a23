import CEpoll

/// A message of netlink(7), as the kernel sends it: a header, a structure by its type, and attributes.
struct NetlinkMessage {
    let type: UInt16
    /// The number of the request that it answers; 0 for the news of a group.
    let sequence: UInt32
    /// What follows the header.
    let payload: ArraySlice<UInt8>

    /// The messages of a datagram. One that claims to be longer than what is left ends them.
    static func all(in datagram: ArraySlice<UInt8>) -> [NetlinkMessage] {
        var messages: [NetlinkMessage] = []
        var rest = datagram
        while let length = rest.integer(at: 0, as: UInt32.self).map({ Int($0) }), length >= headerLength,
            length <= rest.count, let type = rest.integer(at: 4, as: UInt16.self),
            let sequence = rest.integer(at: 8, as: UInt32.self)
        {
            let payload = rest.dropFirst(headerLength).prefix(length - headerLength)
            messages.append(NetlinkMessage(type: type, sequence: sequence, payload: payload))
            rest = rest.dropFirst(aligned(length))
        }
        return messages
    }

    /// The attributes after a structure of that length, by their types; of several with one type, the last.
    func attributes(after length: Int) -> [Int: ArraySlice<UInt8>] {
        var attributes: [Int: ArraySlice<UInt8>] = [:]
        var rest = payload.dropFirst(Self.aligned(length))
        while let length = rest.integer(at: 0, as: UInt16.self).map({ Int($0) }), length >= Self.attributeHeaderLength,
            length <= rest.count, let type = rest.integer(at: 2, as: UInt16.self)
        {
            let value = rest.dropFirst(Self.attributeHeaderLength).prefix(length - Self.attributeHeaderLength)
            // The two bits above say what the value is made of.
            attributes[Int(type & 0x3FFF)] = value
            rest = rest.dropFirst(Self.aligned(length))
        }
        return attributes
    }

    /// A message to the kernel.
    ///
    /// - Parameters:
    ///   - type: such as `RTM_GETROUTE`.
    ///   - flags: besides `NLM_F_REQUEST`.
    ///   - sequence: the number that the answer will have.
    ///   - structure: that of the type.
    ///   - attributes: types and values.
    static func request(
        type: Int, flags: Int32 = 0, sequence: UInt32, structure: [UInt8] = [],
        attributes: [(type: Int, value: [UInt8])] = []
    ) -> [UInt8] {
        var body = padded(structure)
        for (type, value) in attributes {
            let length = UInt16(attributeHeaderLength + value.count)
            body += bytes(of: length) + bytes(of: UInt16(type)) + padded(value)
        }
        return bytes(of: UInt32(headerLength + body.count)) + bytes(of: UInt16(type))
            + bytes(of: UInt16(NLM_F_REQUEST | flags)) + bytes(of: sequence) + bytes(of: UInt32(0)) + body
    }

    /// A number in this machine's order of bytes, as netlink has it.
    static func bytes(of number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

    private static let headerLength = MemoryLayout<nlmsghdr>.size
    private static let attributeHeaderLength = MemoryLayout<rtattr>.size

    private static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }

    private static func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: aligned(bytes.count) - bytes.count)
    }
}

extension ArraySlice<UInt8> {
    /// A number in this machine's order of bytes; nil if there are too few of them.
    func integer<Number: FixedWidthInteger>(at offset: Int, as type: Number.Type) -> Number? {
        guard offset >= 0, count >= offset + MemoryLayout<Number>.size else { return nil }
        return withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: type) }
    }

    /// Text that ends with a zero byte, or with the bytes.
    var text: String { String(decoding: prefix { $0 != 0 }, as: UTF8.self) }
}
