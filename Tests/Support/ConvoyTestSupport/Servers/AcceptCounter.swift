import CEpoll
import Foundation
import Synchronization

/// A listener that counts connections and sends nothing. A connection counts once the system has accepted it,
/// regardless of which side closes it.
public final class AcceptCounter: Sendable {
    /// The port.
    public let port: UInt16
    private let listener: Int32

    /// Listens on all addresses of this machine and a free port.
    public init() throws {
        let listener = socket(AF_INET6, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard listener >= 0 else { throw RawClient.Failure.system("socket", errno) }
        self.listener = listener
        var no: Int32 = 0
        setsockopt(listener, Int32(IPPROTO_IPV6), IPV6_V6ONLY, &no, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 1024) == 0
                    ? getsockname(listener, address, &length) : -1
            }
        }
        guard result == 0 else {
            let code = errno
            close(listener)
            throw RawClient.Failure.system("bind", code)
        }
        port = UInt16(bigEndian: address.sin6_port)
    }

    deinit { close(listener) }

    /// Returns the number of connections since the last call.
    public func takeCount() -> Int {
        var count = 0
        var watched = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
        while poll(&watched, 1, 0) > 0 {
            let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
            guard client >= 0 else { break }
            close(client)
            count += 1
        }
        return count
    }
}
