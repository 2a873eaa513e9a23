import CEpoll
import ConvoySupport
import Foundation

/// A small HTTP/1.1 server on the loopback interface, for the demo, the metrics and the web page of a queue. Each connection
/// has a thread that reads one request after the other. The tests use a separate, more capable server.
final class LoopbackServer: Sendable {
    struct Request: Sendable {
        let method: String
        /// The path with the query.
        let path: String
        /// The header fields, keyed by lowercase name.
        let fields: [String: String]
        let body: Data
        /// Whether the connection closes after this request.
        var isLast = false
    }

    struct Response: Sendable {
        var status = 200
        var fields: [String: String] = [:]
        var body = Data()
        /// The delay of the head, in seconds.
        var delay: TimeInterval = 0
        /// The rate, or nil to send as fast as the client reads.
        var bytesPerSecond: Int?

        static func json(_ value: [String: String], status: Int = 200) -> Response {
            let body = (try? JSONEncoder().encode(value)) ?? Data()
            return Response(status: status, fields: ["Content-Type": "application/json"], body: body, delay: 0.1)
        }
    }

    typealias Handler = @Sendable (Request) -> Response

    private struct ServerState {
        var requests: [Request] = []
        var active = 0
        var peak = 0
        var sockets: Set<Int32> = []
        var isStopped = false
    }

    let port: UInt16
    private let listener: Int32
    private let handler: Handler
    private let state = Locked(ServerState())

    private let recordsRequests: Bool
    private static let longestHead = 64 << 10
    private static let mostConnections = 128
    /// The time to wait for a request, or for a client that does not read, in seconds.
    private static let patience = 60
    private static let stackSize = 512 << 10

    /// - Parameters:
    ///   - port: The port, or 0 for a free one.
    ///   - recordsRequests: Whether to keep the requests in ``requests``.
    /// - Throws: `POSIXError`, or an error if a thread cannot be started.
    init(port wanted: UInt16 = 0, recordsRequests: Bool = true, _ handler: @escaping Handler) throws {
        self.handler = handler
        self.recordsRequests = recordsRequests
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard listener >= 0 else { throw Self.failure() }
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = wanted.bigEndian
        // Allow reusing a port whose last connections are still being closed.
        var isReused: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<Int32>.size))
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian  // 127.0.0.1
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && listen(listener, 128) == 0
                    && getsockname(listener, address, &length) == 0
            }
        }
        guard isListening else {
            let failure = Self.failure()
            close(listener)
            throw failure
        }
        port = UInt16(bigEndian: address.sin_port)
        try SystemThread.start(name: "convoy.loopback", stackSize: Self.stackSize) { [self] in accept() }
    }

    private static func failure() -> POSIXError { POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }

    /// The received requests, in order.
    var requests: [Request] { state.withLock { $0.requests } }

    /// The maximum number of requests that were processed concurrently.
    var peakActiveRequestCount: Int { state.withLock { $0.peak } }

    /// Closes all connections. Their threads end.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            for socket in state.sockets { shutdown(socket, Int32(SHUT_RDWR)) }
        }
        shutdown(listener, Int32(SHUT_RDWR))
    }

    // MARK: Connections

    private func accept() {
        defer { close(listener) }
        while true {
            let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
            if client < 0, errno == EINTR || errno == ECONNABORTED { continue }
            guard client >= 0 else { return }
            let isWanted = state.withLock { state in
                let isWanted = !state.isStopped && state.sockets.count < Self.mostConnections
                if isWanted { state.sockets.insert(client) }
                return isWanted
            }
            var time = timeval(tv_sec: Self.patience, tv_usec: 0)
            setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
            setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
            do throws(SystemError) {
                guard isWanted else { return finish(client) }
                try SystemThread.start(name: "convoy.loopback", stackSize: Self.stackSize) { [self] in serve(client) }
            } catch {
                finish(client)
            }
        }
    }

    private func finish(_ client: Int32) {
        state.withLock { state in
            state.sockets.remove(client)
            close(client)
        }
    }

    private func serve(_ client: Int32) {
        defer { finish(client) }
        var buffer = Data()
        while let request = read(from: client, &buffer) {
            state.withLock { state in
                if recordsRequests { state.requests.append(request) }
                state.active += 1
                state.peak = max(state.peak, state.active)
            }
            defer { state.withLock { $0.active -= 1 } }
            let response = handler(request)
            if response.delay > 0 { Thread.sleep(forTimeInterval: response.delay) }
            guard write(response, to: client, hasBody: request.method != "HEAD"), !request.isLast else { return }
        }
    }

    // MARK: Messages

    /// Returns the next request, or nil at the end of the connection and for an invalid request. Bytes after the request
    /// stay in the buffer.
    private func read(from client: Int32, _ buffer: inout Data) -> Request? {
        let end = Data("\r\n\r\n".utf8)
        while buffer.range(of: end) == nil {
            guard buffer.count < Self.longestHead, receive(from: client, &buffer) else { return nil }
        }
        guard let range = buffer.range(of: end) else { return nil }
        let lines = String(decoding: buffer[..<range.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return nil }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2 else { return nil }
            // With two different hosts or lengths, it is undefined which value applies.
            if ["host", "content-length"].contains(parts[0].lowercased()), fields[parts[0].lowercased()] != nil {
                return nil
            }
            fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        let length = fields["content-length"].flatMap { Int($0) } ?? 0
        guard 0...Self.longestHead ~= length, fields["transfer-encoding"] == nil else { return nil }
        buffer = Data(buffer[range.upperBound...])
        while buffer.count < length {
            guard receive(from: client, &buffer) else { return nil }
        }
        let body = Data(buffer.prefix(length))
        buffer = Data(buffer.dropFirst(length))
        let isLast = words[2] == "HTTP/1.0" || fields["connection"]?.lowercased() == "close"
        return Request(method: String(words[0]), path: String(words[1]), fields: fields, body: body, isLast: isLast)
    }

    private func receive(from client: Int32, _ buffer: inout Data) -> Bool {
        var block = [UInt8](repeating: 0, count: 16 << 10)
        let count = recv(client, &block, block.count, 0)
        guard count > 0 else { return count < 0 && errno == EINTR }
        buffer.append(contentsOf: block[..<count])
        return true
    }

    private func write(_ response: Response, to client: Int32, hasBody: Bool) -> Bool {
        var head = "HTTP/1.1 \(response.status) \r\nContent-Length: \(response.body.count)\r\n"
        for (name, value) in response.fields { head += "\(name): \(value)\r\n" }
        guard send(Data((head + "\r\n").utf8), to: client) else { return false }
        guard hasBody else { return true }
        guard let rate = response.bytesPerSecond else { return send(response.body, to: client) }
        // Send the body in blocks that take 20 ms each.
        let block = max(1, rate / 50)
        for start in stride(from: 0, to: response.body.count, by: block) {
            guard send(response.body[start..<min(start + block, response.body.count)], to: client) else { return false }
            Thread.sleep(forTimeInterval: 0.02)
        }
        return true
    }

    private func send(_ data: Data, to client: Int32) -> Bool {
        data.withUnsafeBytes { bytes in
            var sent = 0
            while sent < bytes.count {
                let count = Glibc.send(
                    client, bytes.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                sent += count
            }
            return true
        }
    }
}
