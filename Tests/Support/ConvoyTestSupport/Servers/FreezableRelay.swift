import CEpoll
import ConvoySupport
import Foundation

/// A relay that forwards connections to another port of 127.0.0.1. While it is frozen, it holds bytes, new connections
/// and their ends, as in an interrupted network. The test must stop the relay.
public final class FreezableRelay: Sendable {
    /// The port.
    public let port: UInt16
    private let listener: Int32
    private let state = Locked(State())

    private struct State {
        var isFrozen = false
        var isOver = false
        /// The total number of connections.
        var count = 0
    }

    /// Starts the relay, which accepts connections when this returns.
    ///
    /// - Parameter target: The port on 127.0.0.1 to which connections are forwarded.
    public init(to target: UInt16) throws {
        (listener, port) = try LoopbackPort.listener()
        let listener = listener
        Thread.detachNewThread { [self] in
            while !isOver {
                var waiting = pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
                guard poll(&waiting, 1, 20) > 0, !isFrozen else { continue }
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                guard client >= 0 else { continue }
                state.withLock { $0.count += 1 }
                Thread.detachNewThread { [self] in pass(client, to: target) }
            }
            close(listener)
        }
    }

    /// The total number of connections.
    public var connectionCount: Int { state.withLock { $0.count } }

    /// Whether the relay holds everything.
    public var isFrozen: Bool {
        get { state.withLock { $0.isFrozen } }
        set { state.withLock { $0.isFrozen = newValue } }
    }

    /// Stops the relay and closes all of its connections.
    public func stop() { state.withLock { $0.isOver = true } }

    private var isOver: Bool { state.withLock { $0.isOver } }

    private func pass(_ client: Int32, to target: UInt16) {
        defer { close(client) }
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard server >= 0 else { return }
        defer { close(server) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = target.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let isConnected = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isConnected else { return }
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        while !isOver {
            var ends = [client, server].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&ends, 2, 20) > 0 else { continue }
            if isFrozen {
                usleep(5000)
                continue
            }
            for (source, target) in [(0, server), (1, client)] where ends[source].revents != 0 {
                let count = read(ends[source].fd, &bytes, bytes.count)
                guard count > 0 else { return }
                var sent = 0
                while sent < count {
                    let written = bytes.withUnsafeBytes {
                        send(target, $0.baseAddress?.advanced(by: sent), count - sent, Int32(MSG_NOSIGNAL))
                    }
                    guard written > 0 else { return }
                    sent += written
                }
            }
        }
    }
}
