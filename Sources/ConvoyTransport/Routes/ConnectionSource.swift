import CEpoll
import ConvoySecurity
import Foundation

/// From where connections are made.
public enum ConnectionSource: Sendable, Hashable {
    /// From a network interface, such as `eth0`, whatever the routing table says.
    case interface(String)
    /// From an address of this machine. Servers with addresses of the other family are not reached.
    case address(IPAddress)

    /// Makes a socket's connection leave from there.
    ///
    /// - Returns: 0, or the system's error.
    func bind(_ descriptor: Int32, family: Int32) -> Int32 {
        switch self {
        case .interface(let name):
            // The system cuts off a longer name.
            guard !name.isEmpty, name.utf8.count < Int(IFNAMSIZ), !name.utf8.contains(0) else { return ENODEV }
            let length = socklen_t(name.utf8.count)
            return setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, name, length) == 0 ? 0 : errno
        case .address(let address):
            guard family == (address.isIPv6 ? AF_INET6 : AF_INET) else { return EAFNOSUPPORT }
            // The port is chosen when the server is known, so that one port can serve for many of them.
            var yes: Int32 = 1
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, Int32(IPPROTO_IP), Self.bindsWithoutPort, &yes, size)
            return address.withSocketAddress { Glibc.bind(descriptor, $0, $1) == 0 ? 0 : errno }
        }
    }

    /// `IP_BIND_ADDRESS_NO_PORT` of `<linux/in.h>`.
    private static let bindsWithoutPort: Int32 = 24
}

extension IPAddress {
    /// Calls a function with the address in the system's form, with port 0.
    fileprivate func withSocketAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        if isIPv6 {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            withUnsafeMutableBytes(of: &address.sin6_addr) { $0.copyBytes(from: bytes) }
            return withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        withUnsafeMutableBytes(of: &address.sin_addr) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
    }
}
