import CEpoll
import ConvoySupport
import Foundation

/// A proxy on 127.0.0.1 that responds to CONNECT (RFC 9110, section 9.3.6) as specified by a test, correctly or not.
///
/// Each connection has its own thread, which ends with it. The test must stop the proxy.
public final class ConnectProxy: Sendable {
    /// The behaviour of the proxy on a connection.
    public enum Behaviour: Sendable {
        /// The proxy sends these bytes after the head of the request, and closes the connection.
        case says(String)
        /// The proxy sends these bytes and then nothing, with the connection open.
        case fallsSilent(after: String)
        /// The proxy sends the first bytes, then the others repeatedly, until the client disconnects.
        case saysForever(String, String)
        /// The proxy sends these bytes, then opens a tunnel to this port of 127.0.0.1, regardless of the requested
        /// host.
        case tunnels(to: UInt16, saying: String = ConnectProxy.established)
        /// The proxy forwards all bytes to another proxy on this port and back, so that they can be delayed or cut.
        case passes(to: UInt16)
    }

    /// The response of an honest proxy to CONNECT.
    public static let established = "HTTP/1.1 200 Connection established\r\n\r\n"

    private struct State {
        var behaviours: [Behaviour]
        var heads: [String] = []
        var passedBytes = 0
        var holdsAfter = Int.max
        var cutsAfter = Int.max
        var flips = Int.max
        var open: Set<Int32> = []
        var isStopped = false
    }

    /// The port on 127.0.0.1.
    public let port: UInt16
    /// The address "http://127.0.0.1:PORT", in the format of the variable `https_proxy`.
    public let address: String
    private let listener: Int32
    private let state: Locked<State>
    private let threads = DispatchGroup()

    /// Starts the proxy, which accepts connections when this returns.
    ///
    /// - Parameter behaviours: The behaviours for successive connections; the last one is repeated.
    public init(_ behaviours: Behaviour...) throws {
        (listener, port) = try LoopbackPort.listener()
        address = "http://127.0.0.1:\(port)"
        state = Locked(State(behaviours: behaviours))
        threads.enter()
        let (listener, group) = (listener, threads)
        let thread = Thread { [weak self] in
            while true {
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                if client >= 0 { self?.begin(client) } else if errno != EINTR, errno != ECONNABORTED { break }
            }
            close(listener)
            group.leave()
        }
        thread.start()
    }

    deinit { endAll() }

    /// The heads of the received requests, unchanged, except for those that were forwarded.
    public var heads: [String] { state.withLock { $0.heads } }

    /// The number of bytes that all tunnels together have sent to clients.
    public var passedBytes: Int { state.withLock { $0.passedBytes } }

    /// Holds back each tunnel's response after the given number of bytes, until `release()`.
    public func hold(afterBytes count: Int) { state.withLock { $0.holdsAfter = count } }

    /// Forwards everything, including bytes that were held back.
    public func release() { state.withLock { $0.holdsAfter = .max } }

    /// Closes each tunnel after the given number of bytes of its response; nil for never.
    public func cut(afterBytes count: Int?) { state.withLock { $0.cutsAfter = count ?? .max } }

    /// Flips a bit of the byte at an offset of each tunnel's response; nil for no change.
    public func flip(byte offset: Int?) { state.withLock { $0.flips = offset ?? .max } }

    /// Closes all connections, and returns when no thread is left.
    public func stop() {
        endAll()
        threads.wait()
    }

    private func endAll() {
        let isFirst = state.withLock { state in
            defer { state.isStopped = true }
            for descriptor in state.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
            return !state.isStopped
        }
        // Wake the accepting thread, which closes the socket.
        if isFirst { shutdown(listener, Int32(SHUT_RDWR)) }
    }

    // MARK: One connection

    private func begin(_ client: Int32) {
        let isOpen = state.withLock { state in
            if !state.isStopped { state.open.insert(client) }
            return !state.isStopped
        }
        guard isOpen else { close(client); return }
        threads.enter()
        let group = threads
        let thread = Thread { [self] in
            serve(client)
            forget(client)
            group.leave()
        }
        thread.stackSize = 1 << 19
        thread.start()
    }

    /// Closes a descriptor and removes it from the list for `stop`.
    private func forget(_ descriptor: Int32) {
        state.withLock { _ = $0.open.remove(descriptor) }
        close(descriptor)
    }

    private func serve(_ client: Int32) {
        let behaviour = state.withLock { $0.behaviours.count > 1 ? $0.behaviours.removeFirst() : $0.behaviours.first }
        guard let behaviour else { return }
        if case .passes(let port) = behaviour { return relay(client, to: port) }
        guard let head = readHead(client) else { return }
        state.withLock { $0.heads.append(head) }
        switch behaviour {
        case .says(let text):
            _ = send(text, to: client)
            shutdown(client, Int32(SHUT_WR))
            // Read until the client closes the connection. Closing it with unread bytes would reset it and lose the
            // response.
            waitForEnd(client)
        case .fallsSilent(let text):
            _ = send(text, to: client)
            waitForEnd(client)
        case .saysForever(let first, let again):
            guard send(first, to: client) else { return }
            let block = String(repeating: again, count: 1 + (64 << 10) / max(1, again.utf8.count))
            while send(block, to: client) {}
        case .tunnels(let port, let text):
            if send(text, to: client) { relay(client, to: port) }
        case .passes: break
        }
    }

    private func readHead(_ client: Int32) -> String? {
        var head: [UInt8] = []
        // Read byte by byte, because bytes after the head belong to the tunnel.
        var byte: UInt8 = 0
        while head.count < 64 << 10 {
            let count = recv(client, &byte, 1, 0)
            if count < 0, errno == EINTR { continue }
            guard count == 1 else { return nil }
            head.append(byte)
            if head.suffix(4) == [13, 10, 13, 10] { return String(decoding: head, as: UTF8.self) }
        }
        return nil
    }

    private func waitForEnd(_ client: Int32) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(client, &bytes, bytes.count, 0)
            if count == 0 || (count < 0 && errno != EINTR) { return }
        }
    }

    private func send(_ text: String, to descriptor: Int32) -> Bool {
        let bytes = Array(text.utf8)
        return bytes.withUnsafeBytes { send($0, to: descriptor) }
    }

    private func send(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.send(descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }

    // MARK: Tunnels

    private func relay(_ client: Int32, to port: UInt16) {
        guard let origin = try? RawClient(port: port, timeout: 60) else { return }
        let descriptor = origin.descriptor
        let isOpen = state.withLock { state in
            if !state.isStopped { state.open.insert(descriptor) }
            return !state.isStopped
        }
        guard isOpen else { return }
        // Only remove the descriptor from the list for `stop`, because the client object closes it.
        defer { state.withLock { _ = $0.open.remove(descriptor) } }
        var passed = 0
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let limit = state.withLock { min($0.cutsAfter, $0.holdsAfter) - passed }
            let isCut = state.withLock { passed >= $0.cutsAfter }
            if isCut { return }
            var watched = [
                pollfd(fd: client, events: Int16(POLLIN), revents: 0),
                pollfd(fd: limit > 0 ? descriptor : -1, events: Int16(POLLIN), revents: 0),
            ]
            // Poll, because nothing signals that a tunnel was released.
            poll(&watched, 2, limit > 0 ? -1 : 2)
            if watched[0].revents != 0, !pass(&bytes, bytes.count, client, descriptor, nil) { return }
            guard watched[1].revents != 0 else { continue }
            let before = passed
            guard pass(&bytes, min(limit, bytes.count), descriptor, client, &passed) else { return }
            state.withLock { $0.passedBytes += passed - before }
        }
    }

    private func pass(
        _ bytes: inout [UInt8], _ limit: Int, _ source: Int32, _ target: Int32, _ total: UnsafeMutablePointer<Int>?
    ) -> Bool {
        let count = recv(source, &bytes, limit, 0)
        guard count > 0 else { return count < 0 && errno == EINTR }
        if let before = total?.pointee {
            let offset = state.withLock { $0.flips } - before
            if (0..<count).contains(offset) { bytes[offset] ^= 1 }
        }
        total?.pointee += count
        return bytes.withUnsafeBytes { send(UnsafeRawBufferPointer(rebasing: $0[..<count]), to: target) }
    }
}
