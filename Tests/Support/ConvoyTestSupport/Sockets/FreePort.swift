import CEpoll
import Foundation

/// Ports on 127.0.0.1.
public enum LoopbackPort {
    /// Returns a port that is currently free. Another process may take it, so the caller must be ready to try another
    /// port.
    public static func free() throws -> UInt16 {
        let (descriptor, port) = try listener(backlog: 0)
        close(descriptor)
        return port
    }

    /// Returns two different free ports. The first one is occupied until the second is known.
    public static func freePair() throws -> (UInt16, UInt16) {
        let (descriptor, port) = try listener(backlog: 0)
        defer { close(descriptor) }
        return (port, try free())
    }

    /// Returns a listening socket on a free port, which can be passed to a server, so that no other process can take
    /// the port in the meantime. The caller must close it.
    public static func listener(backlog: Int32 = 1024) throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw RawClient.Failure.system("socket", errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                if bind(descriptor, address, length) != 0 { return Int32(-1) }
                if backlog > 0, listen(descriptor, backlog) != 0 { return Int32(-1) }
                return getsockname(descriptor, address, &length)
            }
        }
        guard result == 0 else {
            let code = errno
            close(descriptor)
            throw RawClient.Failure.system("bind", code)
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }
}
