import CEpoll
import ConvoySupport
import Foundation

/// A socket to the kernel's networking, of the family `NETLINK_ROUTE` (rtnetlink(7)). Needs no privilege.
final class NetlinkSocket: Sendable {
    /// The end of an attempt to receive.
    enum Receipt {
        /// A datagram of the kernel.
        case datagram(ArraySlice<UInt8>)
        /// There is nothing more now.
        case nothing
        /// The kernel had more to say than the socket has room for, and has thrown some of it away.
        case overrun
        /// The socket cannot be used any more.
        case failure(SystemError)
    }

    let descriptor: Int32

    /// Opens a socket, which is closed with the object.
    ///
    /// - Parameters:
    ///   - groups: the numbers of the groups whose news it gets. One that this kernel does not have is left out.
    ///   - receiveBufferSize: in bytes; nil for that of the system.
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

    /// Sends a message to the kernel, which has dealt with it when this returns. Its answer can be received then.
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

    /// Receives a datagram, and waits for none.
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
            // A program with the right to do so can send something, too. Only the kernel has the number 0.
            if address.nl_pid == 0 { return .datagram(buffer[..<count]) }
        }
    }
}
