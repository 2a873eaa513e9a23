import ConvoySupport
import Foundation

/// An HTTP/2 server on 127.0.0.1 that plays a script of frames for each request. Each connection has a blocking thread.
///
/// It counts the requests that it processed: those whose script contains ``Step/process``.
final class StreamServer: Sendable {
    struct Request: Sendable {
        let method: String
        let path: String
        let stream: UInt32
        /// The number of requests with this path before this one.
        let earlier: Int
    }

    enum Step: Sendable {
        /// A head with these fields, and END_STREAM if `ends`.
        case head(status: Int, fields: [(String, String)] = [], ends: Bool = false)
        case data(String, ends: Bool = true)
        /// RST_STREAM.
        case reset(UInt32)
        /// GOAWAY with the last stream and the code.
        case goAway(last: UInt32, code: UInt32 = 0)
        /// Reads until the request's body has ended.
        case awaitBody
        /// Counts the request as processed.
        case process
        /// Closes the connection gracefully, or resets it.
        case close
        case resetConnection
        /// A frame as written.
        case raw(Frame)
    }

    var port: UInt16 { connections.port }
    private let connections: ReplayConnections
    private let script: @Sendable (Request) -> [Step]
    private let counts = Locked<[String: (arrived: Int, processed: Int)]>([:])

    init(tls: ServerTLS, script: @escaping @Sendable (Request) -> [Step]) throws {
        connections = try ReplayConnections(tls: tls)
        self.script = script
        connections.start { [self] channel in
            guard channel.accept(), channel.speaksHTTP2 else { return serveHTTP1(channel) }
            var connection = Connection(channel: channel)
            while connection.step(self) {}
        }
    }

    func stop() { connections.stop() }

    func arrived(_ path: String) -> Int { counts.withLock { $0[path]?.arrived ?? 0 } }
    func processed(_ path: String) -> Int { counts.withLock { $0[path]?.processed ?? 0 } }

    private func noteArrival(_ path: String) -> Int {
        counts.withLock { counts in
            counts[path, default: (0, 0)].arrived += 1
            return (counts[path]?.arrived ?? 1) - 1
        }
    }

    private func noteProcessing(_ path: String) { counts.withLock { $0[path, default: (0, 0)].processed += 1 } }

    /// Answers each request of an HTTP/1.1 client with its version.
    private func serveHTTP1(_ channel: ServerChannel) {
        while let end = channel.endOfHead ?? (channel.receive() ? 0 : nil) {
            guard end > 0 else { continue }
            let line = String(decoding: channel.received.prefix { $0 != 13 }, as: UTF8.self)
            let path = line.split(separator: " ").dropFirst().first.map(String.init) ?? ""
            channel.received.removeFirst(end)
            _ = noteArrival(path)
            noteProcessing(path)
            guard channel.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nHTTP/1.1".utf8))
            else { return }
            return channel.finish()
        }
    }

    private struct Connection {
        let channel: ServerChannel
        private var decoder = HPACKDecoder()
        private var hasBegun = false
        /// Requests that arrived while a script was waiting.
        private var waiting: [Request] = []
        private var endedStreams: Set<UInt32> = []
        /// The streams whose windows were enlarged; 0 stands for the connection.
        private var roomyStreams: Set<UInt32> = []

        init(channel: ServerChannel) { self.channel = channel }

        /// Serves the next request. Returns false when the connection has ended.
        mutating func step(_ server: StreamServer) -> Bool {
            if !hasBegun {
                let preface = 24
                while channel.received.count < preface { guard channel.receive() else { return false } }
                channel.received.removeFirst(preface)
                hasBegun = true
                guard send(Frame(kind: Frame.Kind.settings, flags: 0, stream: 0, payload: [])) else { return false }
            }
            while waiting.isEmpty { guard take(server) else { return false } }
            let request = waiting.removeFirst()
            for step in server.script(request) {
                guard play(step, for: request, server) else { return false }
            }
            return true
        }

        /// Receives a frame. Returns false at the end of the connection.
        private mutating func take(_ server: StreamServer) -> Bool {
            var position = 0
            guard let frame = Frame.first(of: channel.received, from: &position) else { return channel.receive() }
            channel.received.removeFirst(position)
            switch frame.kind {
            case Frame.Kind.settings where frame.flags & Frame.Flag.acknowledgement == 0:
                return send(Frame(kind: frame.kind, flags: Frame.Flag.acknowledgement, stream: 0, payload: []))
            case Frame.Kind.headers:
                let block = frame.flags & Frame.Flag.priority != 0 ? Array(frame.payload.dropFirst(5)) : frame.payload
                guard let fields = decoder.decode(block) else { return false }
                let path = fields.first { $0.name == ":path" }?.value ?? ""
                if frame.flags & Frame.Flag.endStream != 0 { endedStreams.insert(frame.stream) }
                let method = fields.first { $0.name == ":method" }?.value ?? ""
                waiting.append(
                    Request(method: method, path: path, stream: frame.stream, earlier: server.noteArrival(path)))
            case Frame.Kind.data:
                if frame.flags & Frame.Flag.endStream != 0 { endedStreams.insert(frame.stream) }
            default: break
            }
            return true
        }

        private mutating func play(_ step: Step, for request: Request, _ server: StreamServer) -> Bool {
            switch step {
            case .head(let status, let fields, let ends):
                var block: [UInt8] = [0x08] + Self.text("\(status)")
                for (name, value) in fields { block += [0x00] + Self.text(name) + Self.text(value) }
                let flags = Frame.Flag.endHeaders | (ends ? Frame.Flag.endStream : 0)
                return send(Frame(kind: Frame.Kind.headers, flags: flags, stream: request.stream, payload: block))
            case .data(let text, let ends):
                let flags = ends ? Frame.Flag.endStream : 0
                return send(Frame(kind: Frame.Kind.data, flags: flags, stream: request.stream, payload: Array(text.utf8)))
            case .reset(let code):
                return send(
                    Frame(kind: Frame.Kind.reset, flags: 0, stream: request.stream, payload: Frame.bytes(code)))
            case .goAway(let last, let code):
                return send(
                    Frame(kind: Frame.Kind.goAway, flags: 0, stream: 0, payload: Frame.bytes(last) + Frame.bytes(code)))
            case .awaitBody:
                for stream in [0, request.stream] where !roomyStreams.contains(stream) {
                    roomyStreams.insert(stream)
                    let room = Frame.bytes(1 << 30)
                    guard send(Frame(kind: Frame.Kind.windowUpdate, flags: 0, stream: stream, payload: room)) else {
                        return false
                    }
                }
                while !endedStreams.contains(request.stream) { guard take(server) else { return false } }
                return true
            case .process:
                server.noteProcessing(request.path)
                return true
            case .close:
                channel.finish()
                return false
            case .resetConnection:
                channel.reset()
                return false
            case .raw(let frame): return send(frame)
            }
        }

        private func send(_ frame: Frame) -> Bool { channel.send(frame.bytes) }

        /// Returns a string literal of fewer than 127 bytes (RFC 7541, section 5.2).
        private static func text(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }
    }
}
