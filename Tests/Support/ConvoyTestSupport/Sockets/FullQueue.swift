import CEpoll
import Foundation

/// A port whose queue of unaccepted connections is full.
public final class FullQueue {
    /// The port on 127.0.0.1.
    public let port: UInt16
    private var sockets: [Int32] = []

    /// Fills the queue.
    ///
    /// - Throws: `ProcessError.didNotStart` if a socket cannot be created.
    public init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        sockets = [listener]
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 0) == 0
                    && getsockname(listener, address, &length) == 0
            }
        }
        guard isBound else { throw ProcessError.didNotStart("no socket: \(String(cString: strerror(errno)))") }
        port = UInt16(bigEndian: address.sin_port)
        // The second connection would already wait.
        for _ in 0..<4 {
            let client = socket(
                AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
            sockets.append(client)
            withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = connect(client, $0, length) }
            }
        }
    }

    deinit { for socket in sockets { close(socket) } }
}
