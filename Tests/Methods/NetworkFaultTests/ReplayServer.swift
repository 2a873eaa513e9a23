import ConvoySupport
import ConvoyTestSupport
import Foundation

/// The server's response to a request, and its action on the connection afterwards.
struct Play: Sendable {
    enum End: Sendable {
        /// The server waits for the next request.
        case open
        /// The server sends FIN, after ending TLS.
        case finish
        /// The server sends RST.
        case reset
        /// The server sends nothing more until the client closes the connection.
        case stall
    }

    var bytes: [UInt8]
    /// The number of bytes sent at once.
    var piece = Int.max
    var end = End.open
    /// Whether the connection is intact, so that the client may reuse it.
    var isSound = false
    /// Unsolicited bytes after the response.
    var tail: Tail?

    /// Bytes that are sent separately.
    struct Tail: Sendable {
        var bytes: [UInt8]
        /// A semaphore that is signalled when the bytes may be sent; nil to send them immediately.
        var gate: DispatchSemaphore?
        /// A semaphore that is signalled when the client's system has received the bytes.
        let isSent = DispatchSemaphore(value: 0)

        init(bytes: [UInt8], gate: DispatchSemaphore?) { (self.bytes, self.gate) = (bytes, gate) }
    }
}

/// The arrivals for one case.
struct Arrivals: Sendable {
    /// The number of requests, excluding the probe.
    var requests = 0
    /// Whether the client reused a connection after a response that left it broken.
    var isFollowed = false
}

/// A scripted HTTP/1.1 server on 127.0.0.1. Each connection has a blocking thread.
///
/// `X-Case` is the number of a case. The server responds to a request for `/probe` with that number.
final class ReplayServer: Sendable {
    struct Request: Sendable {
        var number: Int
        var method: String
        var target: String
    }

    var port: UInt16 { connections.port }
    private let connections: ReplayConnections
    private let answering: @Sendable (Request) -> Play
    private let arrivals = Locked<[Int: Arrivals]>([:])

    init(tls: ServerTLS? = nil, answering: @escaping @Sendable (Request) -> Play) throws {
        connections = try ReplayConnections(tls: tls)
        self.answering = answering
        connections.start { [self] channel in serve(channel) }
    }

    func arrivals(of number: Int) -> Arrivals { arrivals.withLock { $0[number] ?? Arrivals() } }

    /// Stops the server and closes all connections.
    func stop() { connections.stop() }

    static func probe(_ number: Int) -> String { "probe \(number)\n" }

    private func serve(_ channel: ServerChannel) {
        guard channel.accept() else { return }
        var unsound: Int?
        while let request = nextRequest(channel) {
            if let unsound { arrivals.withLock { $0[unsound, default: Arrivals()].isFollowed = true } }
            if request.target == "/probe" {
                let text = Self.probe(request.number)
                guard channel.send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)) else {
                    return
                }
                continue
            }
            arrivals.withLock { $0[request.number, default: Arrivals()].requests += 1 }
            let play = answering(request)
            guard play.bytes.isEmpty || channel.send(play.bytes, piece: play.piece) else { return }
            if let tail = play.tail {
                _ = tail.gate?.wait(timeout: .now() + 30)
                let isSent = channel.send(tail.bytes)
                tail.isSent.signal()
                guard isSent else { return }
            }
            switch play.end {
            case .open: unsound = play.isSound ? nil : request.number
            case .finish: return channel.finish()
            case .reset: return channel.reset()
            case .stall: return channel.drain()
            }
        }
    }

    private func nextRequest(_ channel: ServerChannel) -> Request? {
        while true {
            if let end = channel.endOfHead {
                let head = String(decoding: channel.received[..<end], as: UTF8.self)
                let lines = head.components(separatedBy: "\r\n")
                let words = lines[0].split(separator: " ")
                var (number, length) = (-1, 0)
                for line in lines {
                    if line.hasPrefix("X-Case: ") { number = Int(line.dropFirst(8)) ?? -1 }
                    if line.hasPrefix("Content-Length: ") { length = Int(line.dropFirst(16)) ?? 0 }
                }
                while channel.received.count < end + length { guard channel.receive() else { return nil } }
                channel.received.removeFirst(end + length)
                guard words.count == 3 else { return nil }
                return Request(number: number, method: String(words[0]), target: String(words[1]))
            }
            guard channel.receive() else { return nil }
        }
    }
}
