import CEpoll
import ConvoyRealtime
import ConvoySerialization
import ConvoySupport
import ConvoyTestSupport
import Foundation

/// A server of one JSON document, which responds to a request for events with its changes, and to all other requests
/// with the document.
final class DocumentServer: Sendable {
    struct Options: Sendable {
        /// Whether the events have identifiers.
        var sendsIDs = true
        /// Whether responses contain the identifier of the document's last event.
        var sendsVersions = true
        /// Whether a stream continues after `Last-Event-ID`.
        var resumes = true
        /// Whether a stream begins with the document.
        var putsDocument = false
        /// The body of the response to a request for the document, by number; nil for the document.
        var answer: @Sendable (Int) -> String? = { _ in nil }
    }

    private struct State {
        var document: JSON
        /// The text of each event without its identifier, which is its position, from 1.
        var events: [String] = []
        var streams: Set<Int32> = []
        var streamCount = 0
        var fetchCount = 0
        var methods: [String] = []
        var lastEventIDs: [String] = []
        var isStopped = false
    }

    let port: UInt16
    var url: String { "http://127.0.0.1:\(port)/" }
    private let options: Options
    private let listener: Int32
    private let state: Locked<State>
    private let changed = NSCondition()

    init(_ document: JSON, _ options: Options = Options()) throws {
        (listener, port) = try LoopbackPort.listener()
        state = Locked(State(document: document))
        self.options = options
        let listener = listener
        Thread.detachNewThread { [weak self] in
            while true {
                let client = accept4(listener, nil, nil, Int32(SOCK_CLOEXEC.rawValue))
                if client < 0 {
                    if errno == EINTR || errno == ECONNABORTED { continue }
                    break
                }
                Thread.detachNewThread { [weak self] in
                    self?.serve(client)
                    close(client)
                }
            }
            close(listener)
        }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        shutdown(listener, Int32(SHUT_RDWR))
        dropStreams()
    }

    // MARK: The document

    var document: JSON { state.withLock { $0.document } }
    var version: String { state.withLock { options.sendsIDs ? String($0.events.count) : "" } }
    var streamCount: Int { state.withLock { $0.streamCount } }
    var openStreams: Int { state.withLock { $0.streams.count } }
    var fetchCount: Int { state.withLock { $0.fetchCount } }
    var methods: [String] { state.withLock { $0.methods } }
    var lastEventIDs: [String] { state.withLock { $0.lastEventIDs } }

    func change(_ patch: JSONPatch) throws {
        try state.withLock { state in
            try patch.apply(to: &state.document)
            state.events.append("event: patch\ndata: \(patch)\n\n")
        }
        wake()
    }

    /// Sends any event, and optionally sets the document.
    func send(_ event: String, document: JSON? = nil) {
        state.withLock { state in
            if let document { state.document = document }
            state.events.append(event)
        }
        wake()
    }

    private func wake() {
        changed.lock()
        changed.broadcast()
        changed.unlock()
    }

    /// Closes all streams, regardless of their position.
    func dropStreams() {
        state.withLock { state in for stream in state.streams { shutdown(stream, Int32(SHUT_RDWR)) } }
        wake()
    }

    // MARK: Connections

    private func serve(_ client: Int32) {
        var head = ""
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while !head.contains("\r\n\r\n") {
            let count = recv(client, &buffer, buffer.count, 0)
            if count <= 0 { return }
            head += String(decoding: buffer[..<count], as: UTF8.self)
        }
        let lines = head.components(separatedBy: "\r\n")
        func field(_ name: String) -> String? {
            lines.first { $0.lowercased().hasPrefix(name + ":") }?.dropFirst(name.count + 1).trimmingCharacters(
                in: .whitespaces)
        }
        state.withLock { $0.methods.append(lines[0].components(separatedBy: " ")[0]) }
        if field("accept") == "text/event-stream" {
            stream(to: client, after: field("last-event-id"))
        } else {
            answer(client)
        }
    }

    private func answer(_ client: Int32) {
        let (document, version, number) = state.withLock { state in
            state.fetchCount += 1
            return (state.document.description, state.events.count, state.fetchCount)
        }
        let field = options.sendsVersions && options.sendsIDs ? "Last-Event-ID: \(version)\r\n" : ""
        let response =
            options.answer(number)
                ?? """
                HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(document.utf8.count)\r\n\
                \(field)Connection: close\r\n\r\n\(document)
                """
        _ = write(response, to: client)
    }

    private func stream(to client: Int32, after lastEventID: String?) {
        guard write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n\n", to: client)
        else { return }
        var (place, text) = state.withLock { state -> (Int, String) in
            state.streams.insert(client)
            state.streamCount += 1
            if let lastEventID { state.lastEventIDs.append(lastEventID) }
            if options.resumes, let place = lastEventID.flatMap({ Int($0) }) { return (place, "") }
            let id = options.sendsIDs ? "id: \(state.events.count)\n" : ""
            return (state.events.count, options.putsDocument ? "\(id)event: put\ndata: \(state.document)\n\n" : "")
        }
        while write(text, to: client) {
            changed.lock()
            let (rest, isOver) = state.withLock { ($0.events[place...], $0.isStopped) }
            if rest.isEmpty, !isOver {
                _ = changed.wait(until: Date(timeIntervalSinceNow: 0.2))
                changed.unlock()
                // Without an event, a comment detects whether the client is still connected.
                text = ": still here\n\n"
                continue
            }
            changed.unlock()
            if isOver { break }
            text = ""
            for event in rest {
                place += 1
                text += options.sendsIDs ? "id: \(place)\n\(event)" : event
            }
        }
        state.withLock { _ = $0.streams.remove(client) }
    }

    private func write(_ text: String, to client: Int32) -> Bool {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { CEpoll.send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count <= 0 { return false }
            bytes = bytes.dropFirst(count)
        }
        return true
    }
}
