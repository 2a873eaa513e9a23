import CEpoll
import ConvoySupport
import Foundation

/// A relay that forwards connections to another port of 127.0.0.1, but makes clients wait first: for the connection
/// itself, or for the first byte of the response.
///
/// Each connection has its own thread, which ends with it. The test must stop the relay.
public final class SlowRelay: Sendable {
    /// The event that a client waits for.
    public enum Delay: Sendable {
        /// The connection, because the queue is full. Linux retries after one second, and again after two more.
        case connecting
        /// The response: the connection is accepted, but nothing is forwarded.
        case passing
    }

    /// The port.
    public let port: UInt16
    private let listener: Int32
    private let threads = DispatchGroup()
    private let open = Locked<Set<Int32>>([])

    /// Starts the relay. Clients can begin to connect when this returns.
    ///
    /// - Parameters:
    ///   - target: The port on 127.0.0.1 to which connections are forwarded.
    ///   - delay: The event that clients wait for.
    ///   - seconds: The duration of the delay: from now for a connection, and from the start of the connection for a
    ///     response.
    public init(to target: UInt16, _ delay: Delay, for seconds: TimeInterval) throws {
        (listener, port) = try LoopbackPort.listener(backlog: delay == .connecting ? 0 : 128)
        var fillers: [RawClient] = []
        if delay == .connecting {
            guard listen(listener, 0) == 0 else { throw RawClient.Failure.system("listen", errno) }
            // A queue of length 0 has room for one connection.
            fillers.append(try RawClient(port: port))
        }
        let (listener, group, fillerCount) = (listener, threads, fillers.count)
        nonisolated(unsafe) let kept = fillers
        group.enter()
        let thread = Thread { [self] in
            if delay == .connecting {
                Thread.sleep(forTimeInterval: seconds)
                listen(listener, 128)
                for _ in 0..<fillerCount { close(accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))) }
                kept.forEach { $0.close() }
            }
            while true {
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                if client < 0 {
                    if errno == EINTR || errno == ECONNABORTED { continue }
                    break
                }
                begin(client, to: target, after: delay == .passing ? seconds : 0)
            }
            close(listener)
            group.leave()
        }
        thread.start()
    }

    /// Closes all connections, and returns when no thread is left.
    public func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        open.withLock { for descriptor in $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
        threads.wait()
    }

    private func begin(_ client: Int32, to target: UInt16, after delay: TimeInterval) {
        open.withLock { _ = $0.insert(client) }
        threads.enter()
        let group = threads
        let thread = Thread { [self] in
            Thread.sleep(forTimeInterval: delay)
            if let server = try? RawClient(port: target, timeout: 60) { Self.relay(client, server.descriptor) }
            open.withLock { _ = $0.remove(client) }
            close(client)
            group.leave()
        }
        thread.stackSize = 1 << 19
        thread.start()
    }

    /// Forwards bytes in both directions until one side ends.
    private static func relay(_ client: Int32, _ server: Int32) {
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            var watched = [client, server].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&watched, 2, -1) >= 0 || errno == EINTR else { return }
            for (source, target) in [(0, server), (1, client)] where watched[source].revents != 0 {
                let count = recv(watched[source].fd, &bytes, bytes.count, 0)
                guard count > 0 else { return }
                var sent = 0
                while sent < count {
                    let step = bytes.withUnsafeBytes {
                        send(target, $0.baseAddress.map { $0 + sent }, count - sent, Int32(MSG_NOSIGNAL))
                    }
                    guard step > 0 else { return }
                    sent += step
                }
            }
        }
    }
}
