import ConvoySupport
import Foundation

/// An HTTP/2 server over TLS on 127.0.0.1 that responds with recorded frames and a fault. Each connection has a
/// blocking thread.
///
/// `x-case` is the number of a case. The first request of a case gets the fault, and each further one the complete
/// recording. The server responds to a request for `/probe` with that number.
final class FrameReplayServer: Sendable {
    var port: UInt16 { connections.port }
    private let connections: ReplayConnections
    private let cases: @Sendable (Int) -> FrameCase?
    private let arrivals = Locked<[Int: Arrivals]>([:])

    init(tls: ServerTLS, cases: @escaping @Sendable (Int) -> FrameCase?) throws {
        connections = try ReplayConnections(tls: tls)
        self.cases = cases
        connections.start { [self] channel in
            if channel.accept(), !channel.speaksHTTP2 {
                serveOldHTTP(channel)
            } else if channel.speaksHTTP2 {
                var connection = Connection(channel: channel)
                serve(&connection)
            }
        }
    }

    func arrivals(of number: Int) -> Arrivals { arrivals.withLock { $0[number] ?? Arrivals() } }

    /// Stops the server and closes all connections.
    func stop() { connections.stop() }

    /// The server's state for one connection.
    private struct Connection {
        let channel: ServerChannel
        var decoder = HPACKDecoder()
        var hasSentSettings = false

        /// Returns the next frame of the client, after its preface.
        func nextFrame() -> Frame? {
            while true {
                var position = 0
                if let frame = Frame.first(of: channel.received, from: &position) {
                    channel.received.removeFirst(position)
                    return frame
                }
                guard channel.receive() else { return nil }
            }
        }
    }

    private func serve(_ connection: inout Connection) {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        while connection.channel.received.count < preface.count { guard connection.channel.receive() else { return } }
        connection.channel.received.removeFirst(preface.count)
        while let frame = connection.nextFrame() {
            guard frame.kind == Frame.Kind.headers else { continue }
            // If the client includes a priority, it sends five bytes before the block.
            let block = frame.flags & Frame.Flag.priority != 0 ? Array(frame.payload.dropFirst(5)) : frame.payload
            guard let fields = connection.decoder.decode(block),
                let path = fields.first(where: { $0.name == ":path" })?.value,
                let number = fields.first(where: { $0.name == "x-case" }).flatMap({ Int($0.value) })
            else { return }
            guard answer(number, path, on: frame.stream, &connection) else { return }
        }
    }

    /// Returns false if the connection has ended.
    private func answer(_ number: Int, _ path: String, on stream: UInt32, _ connection: inout Connection) -> Bool {
        let channel = connection.channel
        guard path != "/probe" else { return channel.send(probe(number, on: stream, &connection)) }
        guard let test = cases(number) else { return false }
        let count = arrivals.withLock { arrivals in
            arrivals[number, default: Arrivals()].requests += 1
            return arrivals[number]?.requests ?? 0
        }
        let hasSentSettings = connection.hasSentSettings
        connection.hasSentSettings = true
        guard count == 1, stream == 1 else {
            let frames = test.recording.frames.filter { $0.stream != 0 || !hasSentSettings }
            return channel.send(frames.flatMap { test.frame($0, on: stream).bytes })
        }
        let play = test.play
        guard play.bytes.isEmpty || channel.send(play.bytes, piece: play.piece) else { return false }
        switch play.end {
        case .open: return true
        case .finish: channel.finish()
        case .reset: channel.reset()
        case .stall: channel.drain()
        }
        return false
    }

    private func probe(_ number: Int, on stream: UInt32, _ connection: inout Connection) -> [UInt8] {
        var bytes: [UInt8] = []
        if !connection.hasSentSettings {
            bytes += Frame(kind: Frame.Kind.settings, flags: 0, stream: 0, payload: []).bytes
            bytes += Frame(kind: Frame.Kind.settings, flags: Frame.Flag.acknowledgement, stream: 0, payload: []).bytes
        }
        connection.hasSentSettings = true
        let body = Array(ReplayServer.probe(number).utf8)
        // `:status 200` is the eighth entry of the static table, and `content-length` the 28th, whose value is not
        // indexed.
        let length = Array("\(body.count)".utf8)
        var head: [UInt8] = [0x88, 0x0F, 28 - 15, UInt8(length.count)]
        head += length
        bytes += Frame(kind: Frame.Kind.headers, flags: Frame.Flag.endHeaders, stream: stream, payload: head).bytes
        bytes += Frame(kind: Frame.Kind.data, flags: Frame.Flag.endStream, stream: stream, payload: body).bytes
        return bytes
    }

    /// Serves HTTP/1.1, over which Convoy repeats a request with an old libcurl if its response without a length may be
    /// truncated.
    private func serveOldHTTP(_ channel: ServerChannel) {
        while channel.endOfHead == nil { guard channel.receive() else { return } }
        let head = String(decoding: channel.received, as: UTF8.self)
        let line = head.components(separatedBy: "\r\n").first { $0.lowercased().hasPrefix("x-case: ") }
        guard let test = line.flatMap({ Int($0.dropFirst(8)) }).flatMap({ cases($0) }) else { return }
        arrivals.withLock { $0[test.number, default: Arrivals()].requests += 1 }
        let outcome = test.recording.outcome
        let text = "HTTP/1.1 \(outcome.status) X\r\nContent-Length: \(outcome.body.count)\r\nConnection: close\r\n\r\n"
        if channel.send(Array(text.utf8) + outcome.body) { channel.finish() }
    }
}
