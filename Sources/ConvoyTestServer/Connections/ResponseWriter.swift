import ConvoySupport
import Foundation

/// A writer that converts a response into bytes, pauses and an end. It is a plain value that does no I/O and takes the
/// time as a parameter.
///
/// The caller sends everything that `fill` has appended before it acts on the returned step.
struct ResponseWriter {
    /// The action to take after the bytes have been sent.
    enum Step {
        /// Call `fill` again.
        case more
        /// Call `fill` again at the given time, in nanoseconds.
        case wait(until: UInt64)
        /// Call `fill` again when the gate is open.
        case hold(TestServer.Gate)
        /// The response is complete.
        case finished
        /// Close the connection normally, because the response is truncated or missing.
        case close
        /// Reset the connection.
        case reset
        /// Leave the connection open without sending anything else.
        case stall
    }

    private enum Phase {
        case headDelay, headGate, head, bodyDelay, body, trailers, done
    }

    /// Whether another request may follow on the connection after `finished`.
    let keepsAlive: Bool

    private let effects: TestServer.Effects
    private let trailers: TestServer.Headers
    private let encoding: ResponseHead.Encoding
    private let headBytes: [UInt8]
    private let sendsBody: Bool
    private var body: BodySource
    private var phase = Phase.headDelay
    private var pausedAtBodyGate = false
    private var paceStart: UInt64?
    private var pauseUntil: UInt64?
    /// The number of bytes left in the current chunk.
    private var chunkRest = 0

    init(_ response: TestServer.Response, method: String, isHTTP10: Bool, clientKeepsAlive: Bool) {
        let head = ResponseHead(
            response, method: method, isHTTP10: isHTTP10, clientKeepsAlive: clientKeepsAlive)
        headBytes = head.bytes
        keepsAlive = head.keepsAlive
        encoding = head.encoding
        effects = response.effects
        trailers = response.trailers
        body = BodySource(head.sendsBody ? response.body : .none)
        sendsBody = head.sendsBody
    }

    /// Appends up to about `room` bytes, and returns the next step. `now` is a monotonic time in nanoseconds.
    mutating func fill(_ output: inout [UInt8], room: Int, now: UInt64) -> Step {
        switch phase {
        case .headDelay:
            phase = .headGate
            return effects.headDelay > 0 ? .wait(until: Nanoseconds.deadline(effects.headDelay, after: now)) : .more
        case .headGate:
            phase = .head
            if let gate = effects.headGate { return .hold(gate) }
            return .more
        case .head:
            switch effects.fault {
            case .stallBeforeHead: return .stall
            case .resetBeforeHead: return .reset
            case .closeBeforeHead: return .close
            default: break
            }
            output.append(contentsOf: headBytes)
            phase = .bodyDelay
            return .more
        case .bodyDelay:
            phase = .body
            return effects.bodyDelay > 0 ? .wait(until: Nanoseconds.deadline(effects.bodyDelay, after: now)) : .more
        case .body:
            return fillBody(&output, room: room, now: now)
        case .trailers:
            phase = .done
            guard encoding == .chunked, sendsBody else { return .more }
            output.append(contentsOf: "0\r\n".utf8)
            for field in trailers.fields { ResponseHead.append(field.name, field.value, to: &output) }
            output.append(contentsOf: [13, 10])
            return .more
        case .done:
            return .finished
        }
    }

    private mutating func fillBody(_ output: inout [UInt8], room: Int, now: UInt64) -> Step {
        if let gate = effects.bodyGate, !pausedAtBodyGate, body.position >= effects.bodyGateOffset {
            pausedAtBodyGate = true
            return .hold(gate)
        }
        if let end = faultStep() { return end }
        if body.isAtEnd {
            phase = .trailers
            return .more
        }
        if let pauseUntil, now < pauseUntil { return .wait(until: pauseUntil) }
        pauseUntil = nil

        var part = min(room, body.restOfPart)
        if let allowance = allowance(now) {
            guard allowance.count > 0 else { return .wait(until: allowance.nextTime) }
            part = min(part, allowance.count)
        }
        if encoding == .chunked, chunkRest == 0 {
            chunkRest = chunkSize(part)
            output.append(contentsOf: String(chunkRest, radix: 16).utf8)
            output.append(contentsOf: [13, 10])
        }
        if encoding == .chunked { part = min(part, chunkRest) }
        part = min(part, bytesUntilMark())

        let endsPart = body.restOfPart == part
        body.append(part, to: &output)
        if encoding == .chunked {
            chunkRest -= part
            if chunkRest == 0, !isCutHere() { output.append(contentsOf: [13, 10]) }
        }
        switch effects.pace {
        case .drip(_, let interval) where interval > 0 && !body.isAtEnd:
            pauseUntil = Nanoseconds.deadline(interval, after: now)
        case .betweenChunks(let interval) where interval > 0 && endsPart && !body.isAtEnd:
            pauseUntil = Nanoseconds.deadline(interval, after: now)
        default: break
        }
        return .more
    }

    /// Returns the fault once its offset has been reached, or the body is shorter than the offset.
    private func faultStep() -> Step? {
        guard isCutHere() || body.isAtEnd else { return nil }
        switch effects.fault {
        case .stall: return .stall
        case .reset: return .reset
        case .close: return .close
        default: return nil
        }
    }

    private var cutOffset: Int? {
        switch effects.fault {
        case .stall(let offset), .reset(let offset), .close(let offset): max(0, offset)
        default: nil
        }
    }

    private func isCutHere() -> Bool {
        guard let cutOffset else { return false }
        return body.position >= cutOffset
    }

    /// Returns the number of bytes until the fault or the gate, where a write must end.
    private func bytesUntilMark() -> Int {
        var rest = Int.max
        if let cutOffset { rest = min(rest, cutOffset - body.position) }
        if effects.bodyGate != nil, !pausedAtBodyGate { rest = min(rest, effects.bodyGateOffset - body.position) }
        return max(0, rest)
    }

    /// Returns the size of the next HTTP chunk: the rest of the current part, or `next` if the response is paced or the
    /// parts have no size of their own.
    private func chunkSize(_ next: Int) -> Int {
        switch effects.pace {
        case .drip, .bandwidth: return next
        default: return body.partIsUnit ? body.restOfPart : next
        }
    }

    /// Returns the number of bytes that may be sent now and, if that is 0, the time of the next call; nil if the number
    /// is unlimited.
    private mutating func allowance(_ now: UInt64) -> (count: Int, nextTime: UInt64)? {
        switch effects.pace {
        case .drip(let bytes, _):
            return (max(1, bytes), now)
        case .bandwidth(let rate):
            let rate = Double(max(1, rate))
            let start = paceStart ?? now
            paceStart = start
            // Send the bytes of a twentieth of a second at once, so that the loop is not woken for each byte.
            let earned = Double(now &- start) / 1e9 * rate
            let unit = max(1, rate / 20)
            let count = earned + unit - Double(body.position)
            if count >= min(unit, Double(body.restOfPart)) { return (Int(min(count, 1e9)), now) }
            let missing = (min(unit, Double(body.restOfPart)) - count) / rate
            return (0, Nanoseconds.deadline(max(missing, 0.001), after: now))
        case .unlimited, .betweenChunks:
            return nil
        }
    }
}

/// The encoded head of a response, and the framing and connection persistence that it implies.
struct ResponseHead {
    /// The framing of the body.
    enum Encoding {
        case identity
        case chunked
    }

    var bytes: [UInt8] = []
    var encoding: Encoding = .identity
    /// Whether a body is sent. False for HEAD, and for a status without a body unless the response forces one (RFC 9110
    /// section 6.4.1).
    var sendsBody = true
    /// Whether another response may follow on the connection.
    var keepsAlive: Bool

    init(_ response: TestServer.Response, method: String, isHTTP10: Bool, clientKeepsAlive: Bool) {
        keepsAlive = clientKeepsAlive && !response.closesConnection
        if case .raw = response.body {
            keepsAlive = false
            return
        }
        var framing = Self.resolve(response, isHTTP10: isHTTP10)
        if method == "HEAD" { sendsBody = false }
        if framing == .automatic, Self.hasNoBody(response.status) { sendsBody = false }
        if framing == .automatic, case .chunks = response.body { framing = .chunked }
        for interim in response.interim {
            Self.append(status: interim.status, reason: interim.reason, to: &bytes)
            for field in interim.headers.fields { Self.append(field.name, field.value, to: &bytes) }
            bytes.append(contentsOf: [13, 10])
        }
        Self.append(status: response.status, reason: response.reason, to: &bytes)
        for field in response.headers.fields { Self.append(field.name, field.value, to: &bytes) }
        appendFraming(framing, of: response)
        if !keepsAlive, response.headers["Connection"] == nil {
            Self.append("Connection", "close", to: &bytes)
        } else if isHTTP10, keepsAlive {
            Self.append("Connection", "keep-alive", to: &bytes)
        }
        bytes.append(contentsOf: [13, 10])
    }

    private mutating func appendFraming(_ framing: TestServer.Response.Framing, of response: TestServer.Response) {
        let count = response.body.count
        switch framing {
        case .automatic:
            if let own = response.headers["Content-Length"] {
                if sendsBody, Int(own) != count { keepsAlive = false }
            } else if response.headers["Transfer-Encoding"] != nil {
                if sendsBody { keepsAlive = false }
            } else if !Self.hasNoBody(response.status) {
                Self.append("Content-Length", String(count), to: &bytes)
            }
        case .contentLength(let length):
            Self.append("Content-Length", String(length), to: &bytes)
            let sent = sendsBody ? count : length
            if Self.hasNoBody(response.status) ? count > 0 : sent != length { keepsAlive = false }
        case .chunked:
            encoding = .chunked
            Self.append("Transfer-Encoding", "chunked", to: &bytes)
            if !response.trailers.fields.isEmpty, response.headers["Trailer"] == nil {
                Self.append("Trailer", response.trailers.fields.map(\.name).joined(separator: ", "), to: &bytes)
            }
        case .closeDelimited:
            keepsAlive = false
        }
    }

    /// Returns the framing to use. HTTP/1.0 does not support chunks (RFC 9112 section 7.1), so the body ends with the
    /// connection.
    private static func resolve(_ response: TestServer.Response, isHTTP10: Bool) -> TestServer.Response.Framing {
        guard isHTTP10 else { return response.framing }
        if response.framing == .chunked { return .closeDelimited }
        if response.framing == .automatic, case .chunks = response.body { return .closeDelimited }
        return response.framing
    }

    private static func hasNoBody(_ status: Int) -> Bool {
        status == 204 || status == 304 || (100..<200).contains(status)
    }

    private static func append(status: Int, reason: String?, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "HTTP/1.1 ".utf8)
        bytes.append(contentsOf: String(status).utf8)
        bytes.append(32)
        bytes.append(contentsOf: (reason ?? StatusText.reasonPhrase(status)).utf8)
        bytes.append(contentsOf: [13, 10])
    }

    static func append(_ name: String, _ value: String, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: name.utf8)
        bytes.append(contentsOf: [58, 32])
        bytes.append(contentsOf: value.utf8)
        bytes.append(contentsOf: [13, 10])
    }
}

/// A body that is read sequentially, part by part, without being copied as a whole.
struct BodySource {
    private enum Part {
        case data(Data)
        case pattern(count: Int, offset: Int)

        var count: Int {
            switch self {
            case .data(let data): data.count
            case .pattern(let count, _): count
            }
        }
    }

    private var parts: [Part]
    private var index = 0
    private var offset = 0
    /// The number of bytes taken so far.
    private(set) var position = 0

    init(_ body: TestServer.Response.Body) {
        switch body {
        case .none: parts = []
        case .data(let data), .raw(let data): parts = [.data(data)]
        case .chunks(let chunks): parts = chunks.map { .data($0) }
        case .pattern(let count, let offset): parts = [.pattern(count: max(0, count), offset: PatternBytes.reduced(offset))]
        }
        parts.removeAll { $0.count == 0 }
    }

    var isAtEnd: Bool { index == parts.count }

    /// The number of bytes left in the current part.
    var restOfPart: Int { isAtEnd ? 0 : parts[index].count - offset }

    /// Whether the current part is sent as one HTTP chunk. Generated bytes have no natural chunk size.
    var partIsUnit: Bool {
        guard !isAtEnd, case .data = parts[index] else { return false }
        return true
    }

    /// Appends at most `count` bytes of the current part.
    mutating func append(_ count: Int, to output: inout [UInt8]) {
        let count = min(count, restOfPart)
        guard count > 0 else { return }
        switch parts[index] {
        case .data(let data):
            data.withUnsafeBytes { output.append(contentsOf: $0[offset..<(offset + count)]) }
        case .pattern(_, let start):
            PatternBytes.append(count: count, offset: start + PatternBytes.reduced(offset), to: &output)
        }
        offset += count
        position += count
        if offset == parts[index].count {
            index += 1
            offset = 0
        }
    }
}
