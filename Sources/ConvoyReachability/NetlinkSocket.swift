import CEpoll
import ConvoySupport
import Foundation

/// A `NETLINK_ROUTE` socket for the kernel's networking (rtnetlink(7)). It requires no privileges.
final class NetlinkSocket: Sendable {
    /// The result of an attempt to receive a datagram.
    enum Receipt {
        /// A datagram from the kernel.
        case datagram(ArraySlice<UInt8>)
        /// No datagram is waiting.
        case nothing
        /// The socket's buffer was full, and the kernel dropped messages.
        case overrun
        /// The socket is unusable.
        case failure(SystemError)
    }

    let descriptor: Int32

    /// Opens a socket, which is closed when the object is released.
    ///
    /// - Parameters:
    ///   - groups: The multicast groups to join. Groups that the kernel does not support are ignored.
    ///   - receiveBufferSize: The size of the receive buffer, in bytes; nil for the system's default.
    init(groups: [rtnetlink_groups] = [], receiveBufferSize: Int32? = nil) throws(SystemError) {
        descriptor = socket(AF_NETLINK, Int32(SOCK_RAW.rawValue) | Int32(SOCK_CLOEXEC.rawValue), NETLINK_ROUTE)
        guard descriptor >= 0 else { throw SystemError() }
        if var size = receiveBufferSize {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_nl()
        address.nl_family = sa_family_t(AF_NETLINK)
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_nl>.size))
            }
        }
        guard result == 0 else {
            let error = SystemError()
            close(descriptor)
            throw error
        }
        for group in groups {
            var number = group.rawValue
            setsockopt(
                descriptor, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &number, socklen_t(MemoryLayout<UInt32>.size))
        }
    }

    deinit { close(descriptor) }

    /// Sends a message to the kernel, which processes it synchronously: the response is available when this returns.
    func send(_ message: [UInt8]) throws(SystemError) {
        var address = sockaddr_nl()
        address.nl_family = sa_family_t(AF_NETLINK)
        while true {
            let count = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    sendto(descriptor, message, message.count, 0, $0, socklen_t(MemoryLayout<sockaddr_nl>.size))
                }
            }
            if count >= 0 { return }
            guard errno == EINTR else { throw SystemError() }
        }
    }

    /// Receives a datagram, without blocking.
    func receive(into buffer: inout [UInt8]) -> Receipt {
        while true {
            var address = sockaddr_nl()
            var length = socklen_t(MemoryLayout<sockaddr_nl>.size)
            let count = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT), $0, &length)
                }
            }
            if count < 0 {
                switch errno {
                case EINTR: continue
                case EAGAIN: return .nothing
                case ENOBUFS: return .overrun
                default: return .failure(SystemError())
                }
            }
            // Privileged programs can also send messages. Only the kernel has the port number 0.
            if address.nl_pid == 0 { return .datagram(buffer[..<count]) }
        }
    }
}

/// A netlink(7) message: a header, a structure that depends on the type, and attributes.
struct NetlinkMessage {
    let type: UInt16
    /// The number of the request that the message responds to; 0 for a notification.
    let sequence: UInt32
    /// The bytes after the header.
    let payload: ArraySlice<UInt8>

    /// Returns the messages in a datagram, up to the first one that exceeds the remaining bytes.
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

    /// Returns the attributes after a structure of the given length, by type. If a type is repeated, the last attribute
    /// is used.
    func attributes(after length: Int) -> [Int: ArraySlice<UInt8>] {
        var attributes: [Int: ArraySlice<UInt8>] = [:]
        var rest = payload.dropFirst(Self.aligned(length))
        while let length = rest.integer(at: 0, as: UInt16.self).map({ Int($0) }), length >= Self.attributeHeaderLength,
            length <= rest.count, let type = rest.integer(at: 2, as: UInt16.self)
        {
            let value = rest.dropFirst(Self.attributeHeaderLength).prefix(length - Self.attributeHeaderLength)
            // Remove the two highest bits, which are flags.
            attributes[Int(type & 0x3FFF)] = value
            rest = rest.dropFirst(Self.aligned(length))
        }
        return attributes
    }

    /// Encodes a request to the kernel.
    ///
    /// - Parameters:
    ///   - type: The type, for example `RTM_GETROUTE`.
    ///   - flags: The flags in addition to `NLM_F_REQUEST`.
    ///   - sequence: The sequence number of the response.
    ///   - structure: The structure for the type.
    ///   - attributes: The types and values of the attributes.
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

    /// Returns the bytes of a number in native byte order, as used by netlink.
    static func bytes(of number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

    private static let headerLength = MemoryLayout<nlmsghdr>.size
    private static let attributeHeaderLength = MemoryLayout<rtattr>.size

    private static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }

    private static func padded(_ bytes: [UInt8]) -> [UInt8] {
        bytes + [UInt8](repeating: 0, count: aligned(bytes.count) - bytes.count)
    }
}

extension ArraySlice<UInt8> {
    /// Returns the number at an offset, in native byte order; nil if there are too few bytes.
    func integer<Number: FixedWidthInteger>(at offset: Int, as type: Number.Type) -> Number? {
        guard offset >= 0, count >= offset + MemoryLayout<Number>.size else { return nil }
        return withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: type) }
    }

    /// The string up to a zero byte or the end.
    var text: String { String(decoding: prefix { $0 != 0 }, as: UTF8.self) }
}
