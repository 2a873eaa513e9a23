import CEpoll
import Foundation

/// A server on 127.0.0.1 that sends given bytes to each client after its first bytes, and closes the connection.
public final class RawServer: Sendable {
    /// The port.
    public let port: UInt16
    private let listener: Int32
    private let end = DispatchGroup()

    /// Starts the server, which accepts connections when this returns.
    ///
    /// - Parameter answer: The bytes; nil to send nothing and keep the connection open until the client closes it.
    public convenience init(answer: [UInt8]?) throws { try self.init { _ in answer } }

    /// Starts the server, which accepts connections when this returns.
    ///
    /// - Parameter answering: A closure that is called with the first bytes of a connection, on the server's thread.
    public init(answering: @escaping @Sendable ([UInt8]) -> [UInt8]?) throws {
        (listener, port) = try LoopbackPort.listener()
        let (listener, end) = (listener, end)
        end.enter()
        let thread = Thread {
            var bytes = [UInt8](repeating: 0, count: 16 << 10)
            while true {
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                if client < 0 {
                    if errno == EINTR || errno == ECONNABORTED { continue }
                    break
                }
                let said = recv(client, &bytes, bytes.count, 0)
                let answer = answering(Array(bytes[..<max(0, said)]))
                var rest = said > 0 ? answer ?? [] : []
                while !rest.isEmpty {
                    let count = send(client, rest, rest.count, Int32(MSG_NOSIGNAL))
                    guard count > 0 else { break }
                    rest.removeFirst(count)
                }
                if answer != nil { shutdown(client, Int32(SHUT_WR)) }
                // Read until the client closes the connection. Closing it with unread bytes would reset it and lose the
                // response.
                while recv(client, &bytes, bytes.count, 0) > 0 {}
                close(client)
            }
            close(listener)
            end.leave()
        }
        thread.start()
    }

    /// Stops the server once the current connection has ended.
    public func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        end.wait()
    }
}
