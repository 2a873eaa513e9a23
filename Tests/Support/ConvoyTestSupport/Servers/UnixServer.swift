import CEpoll
import ConvoySupport
import Foundation

/// A server on a Unix socket that responds to each request with the request's head, and keeps the connection open.
public final class UnixServer: Sendable {
    private let listener: Int32
    private let heads = Locked<[String]>([])
    private let accepts = Locked(0)
    private let threads = DispatchGroup()
    private let open = Locked<Set<Int32>>([])

    /// Starts the server, which accepts connections when this returns.
    ///
    /// - Parameter name: A path, or `@` followed by an abstract name.
    public init(_ name: String) throws {
        let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        self.listener = listener
        guard listener >= 0 else { throw RawClient.Failure.system("socket", errno) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isAbstract = name.first == "@"
        let bytes = (isAbstract ? [0] : []) + Array(name.utf8.dropFirst(isAbstract ? 1 : 0))
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes.prefix($0.count - 1)) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count + (isAbstract ? 0 : 1))
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(listener, $0, length) }
        }
        guard result == 0, listen(listener, 64) == 0 else {
            let code = errno
            close(listener)
            throw RawClient.Failure.system("bind", code)
        }
        threads.enter()
        let threads = threads
        Thread { [weak self] in
            while true {
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                if client >= 0 { self?.begin(client) } else if errno != EINTR, errno != ECONNABORTED { break }
            }
            close(listener)
            threads.leave()
        }.start()
    }

    /// The heads of the requests, unchanged.
    public var requests: [String] { heads.withLock { $0 } }

    /// The total number of connections.
    public var connectionCount: Int { accepts.withLock { $0 } }

    /// Stops the server and closes its connections.
    public func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        open.withLock { for client in $0 { shutdown(client, Int32(SHUT_RDWR)) } }
        threads.wait()
    }

    private func begin(_ client: Int32) {
        accepts.withLock { $0 += 1 }
        _ = open.withLock { $0.insert(client) }
        threads.enter()
        Thread { [self] in
            serve(client)
            _ = open.withLock { $0.remove(client) }
            close(client)
            threads.leave()
        }.start()
    }

    private func serve(_ client: Int32) {
        var head = ""
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = recv(client, &bytes, bytes.count, 0)
            guard count > 0 else { return }
            head += String(decoding: bytes[..<count], as: UTF8.self)
            guard head.hasSuffix("\r\n\r\n") else { continue }
            heads.withLock { $0.append(head) }
            let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: \(head.utf8.count)\r\n\r\n\(head)".utf8)
            send(client, answer, answer.count, Int32(MSG_NOSIGNAL))
            head = ""
        }
    }
}
