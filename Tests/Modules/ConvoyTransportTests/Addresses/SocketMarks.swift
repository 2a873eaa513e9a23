import CEpoll
import Foundation

/// The marks of a socket's packets. Client and server of a test run in the same process, so both ends can be queried.
struct SocketMarks: Equatable {
    /// The type of service or traffic class: the DSCP, and two zero bits.
    var byte: Int32
    var priority: Int32

    /// Returns the marks of this process's connections to a port.
    static func ofClients(of port: UInt16) -> [SocketMarks] {
        descriptors { peerPort($0) == port }.map { descriptor in
            let isIPv6 = option(descriptor, SOL_SOCKET, SO_DOMAIN) == AF_INET6
            let byte =
                isIPv6 ? option(descriptor, Int32(IPPROTO_IPV6), IPV6_TCLASS) : option(descriptor, Int32(IPPROTO_IP), IP_TOS)
            return SocketMarks(byte: byte ?? -1, priority: option(descriptor, SOL_SOCKET, SO_PRIORITY) ?? -1)
        }
    }

    /// Returns the type-of-service bytes received with the first packets of the IPv4 connections to a port, in the
    /// order of the server's descriptors.
    static func received(at port: UInt16) -> [Int32] {
        descriptors { ownPort($0) == port && peerPort($0) != nil }.compactMap { descriptor in
            var yes: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_IP), IP_RECVTOS, &yes, socklen_t(MemoryLayout<Int32>.size))
            var control = [UInt8](repeating: 0, count: 256)
            var length = socklen_t(control.count)
            guard getsockopt(descriptor, Int32(IPPROTO_IP), packetOptions, &control, &length) == 0 else { return nil }
            return byte(in: control[..<Int(length)])
        }
    }

    /// `IP_PKTOPTIONS` of `<linux/in.h>`: the control messages for the last packet.
    private static let packetOptions: Int32 = 9

    /// Returns the value of the control message for the type of service, which follows a length, a level and a type.
    private static func byte(in control: ArraySlice<UInt8>) -> Int32? {
        let header = MemoryLayout<cmsghdr>.size
        var rest = control
        while rest.count >= header {
            let message = rest.withUnsafeBytes { $0.loadUnaligned(as: cmsghdr.self) }
            guard message.cmsg_len > header, message.cmsg_len <= rest.count else { return nil }
            if message.cmsg_level == Int32(IPPROTO_IP), message.cmsg_type == IP_TOS {
                return rest.dropFirst(header).first.map { Int32($0) }
            }
            rest = rest.dropFirst((Int(message.cmsg_len) + 7) & ~7)
        }
        return nil
    }

    private static func descriptors(_ isWanted: (Int32) -> Bool) -> [Int32] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { Int32($0) }.sorted().filter(isWanted)
    }

    private static func option(_ descriptor: Int32, _ level: Int32, _ name: Int32) -> Int32? {
        var value: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, level, name, &value, &length) == 0 ? value : nil
    }

    private static func ownPort(_ descriptor: Int32) -> UInt16? { port { getsockname(descriptor, $0, $1) } }
    private static func peerPort(_ descriptor: Int32) -> UInt16? { port { getpeername(descriptor, $0, $1) } }

    /// Returns the port of an address, which is at the same offset for both families.
    private static func port(
        _ ask: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> UInt16? {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { ask($0, &length) }
        }
        guard result == 0, [AF_INET, AF_INET6].contains(Int32(address.sin6_family)) else { return nil }
        return UInt16(bigEndian: address.sin6_port)
    }
}
