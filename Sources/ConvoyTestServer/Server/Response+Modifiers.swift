import Foundation

extension TestServer.Response {
    private func changed(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }

    /// With this status, and reason phrase if one is given.
    public func status(_ status: Int, reason: String? = nil) -> Self {
        changed {
            $0.status = status; $0.reason = reason
        }
    }

    /// With this header field added after the others.
    public func header(_ name: String, _ value: String) -> Self {
        changed { $0.headers.add(name, value) }
    }

    /// With this Content-Length, right or wrong. See `Framing.contentLength(_:)`.
    public func contentLength(_ length: Int) -> Self {
        changed { $0.framing = .contentLength(length) }
    }

    /// With the body framed in this way.
    public func framed(_ framing: Framing) -> Self {
        changed { $0.framing = framing }
    }

    /// With these trailer fields after the last chunk. The body becomes chunked.
    public func trailers(_ trailers: TestServer.Headers) -> Self {
        changed {
            $0.trailers = trailers; $0.framing = .chunked
        }
    }

    /// With an informational response (1xx) before it, after those added earlier.
    public func preceded(by status: Int, headers: TestServer.Headers = [:]) -> Self {
        changed { $0.interim.append(TestServer.Response(status: status, headers: headers)) }
    }

    /// With "Connection: close", and the connection closed after it.
    public func closing() -> Self {
        changed { $0.closesConnection = true }
    }

    /// With the head sent this many seconds later.
    public func delayed(_ seconds: TimeInterval) -> Self {
        changed { $0.effects.headDelay = seconds }
    }

    /// With the body sent this many seconds after the head.
    public func delayedBody(_ seconds: TimeInterval) -> Self {
        changed { $0.effects.bodyDelay = seconds }
    }

    /// With the head waiting until the gate is opened.
    public func held(by gate: TestServer.Gate) -> Self {
        changed { $0.effects.headGate = gate }
    }

    /// With the head and `afterBytes` bytes of the body sent, and the rest waiting until the gate is opened.
    public func heldBody(by gate: TestServer.Gate, afterBytes: Int = 0) -> Self {
        changed {
            $0.effects.bodyGate = gate; $0.effects.bodyGateOffset = afterBytes
        }
    }

    /// With at most this many body bytes per second.
    public func bandwidth(bytesPerSecond: Int) -> Self {
        changed { $0.effects.pace = .bandwidth(bytesPerSecond: bytesPerSecond) }
    }

    /// With this fault. `stalls`, `resets` and `truncated` are short forms.
    public func failing(_ fault: TestServer.Effects.Fault) -> Self {
        changed { $0.effects.fault = fault }
    }

    /// With nothing sent after this many body bytes; the connection stays open.
    public func stalls(afterBytes: Int) -> Self { failing(.stall(afterBytes: afterBytes)) }

    /// With the connection reset (TCP RST) after this many body bytes.
    public func resets(afterBytes: Int) -> Self { failing(.reset(afterBytes: afterBytes)) }

    /// With the connection closed normally after this many body bytes, though more were announced.
    public func truncated(afterBytes: Int) -> Self { failing(.close(afterBytes: afterBytes)) }

    /// With the connection reset (TCP RST) in place of a response.
    public func resetBeforeHead() -> Self { failing(.resetBeforeHead) }
}
