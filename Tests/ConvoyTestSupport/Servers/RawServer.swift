import CEpoll
import Foundation

/// A server on 127.0.0.1 that says the same bytes to everybody who has said something, whatever it was, and ends the
/// connection.
public final class RawServer: Sendable {
    /// The port.
    public let port: UInt16
    private let listener: Int32
    private let end = DispatchGroup()

    /// Starts it. It accepts connections when this returns.
    ///
    /// - Parameter answer: The bytes; nil says nothing and leaves the connection open until the client ends it.
    public init(answer: [UInt8]?) throws {
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
                if said > 0, let answer { send(client, answer, answer.count, Int32(MSG_NOSIGNAL)) }
                if answer != nil { shutdown(client, Int32(SHUT_WR)) }
                // Until the client ends it: closing with unread bytes would reset the connection and lose the answer.
                while recv(client, &bytes, bytes.count, 0) > 0 {}
                close(client)
            }
            close(listener)
            end.leave()
        }
        thread.start()
    }

    /// Ends it, when the connection that it serves has ended.
    public func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        end.wait()
    }
}
