import ConvoySupport
import Foundation

/// Turns a response into bytes, pauses and an end: a plain value that does no I/O and is passed the time.
///
/// The caller sends everything that `fill` has appended before it acts on the returned step.
struct ResponseWriter {
    /// What to do after the bytes have been sent.
    enum Step {
        /// Call again.
        case more
        /// Call again at this time, in nanoseconds.
        case wait(until: UInt64)
        /// Call again when the gate is open.
        case hold(TestServer.Gate)
        /// The response is complete.
        case finished
        /// Close the connection normally: the response is cut off, or there is none.
        case close
        /// Reset the connection.
        case reset
        /// Never call again, and leave the connection open.
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
    /// The bytes left of the current chunk.
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

    /// Appends up to about `room` bytes, and returns how to continue. `now` is a monotonic time in nanoseconds.
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

    /// The fault, once its offset has been reached or the body is shorter than that.
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

    /// The bytes until the fault or the gate, where a write must end.
    private func bytesUntilMark() -> Int {
        var rest = Int.max
        if let cutOffset { rest = min(rest, cutOffset - body.position) }
        if effects.bodyGate != nil, !pausedAtBodyGate { rest = min(rest, effects.bodyGateOffset - body.position) }
        return max(0, rest)
    }

    /// The size of an HTTP chunk: a whole part of the body, unless the pace divides it or the part has no natural size.
    private func chunkSize(_ next: Int) -> Int {
        switch effects.pace {
        case .drip, .bandwidth: return next
        default: return body.partIsUnit ? body.restOfPart : next
        }
    }

    /// How many bytes may be sent now, and when to call again if none may; nil without a limit.
    private mutating func allowance(_ now: UInt64) -> (count: Int, nextTime: UInt64)? {
        switch effects.pace {
        case .drip(let bytes, _):
            return (max(1, bytes), now)
        case .bandwidth(let rate):
            let rate = Double(max(1, rate))
            let start = paceStart ?? now
            paceStart = start
            // The bytes of a twentieth of a second are sent at once, so that the loop is not woken for each byte.
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
