import ConvoySupport
import Foundation

/// A client's connection and its current request. Used on the server's thread.
final class ClientConnection {
    enum Phase {
        /// The TLS handshake is in progress.
        case handshaking
        /// The connection is waiting for a request or reading one.
        case reading
        /// A handler has been called and has not responded yet.
        case answering
        /// The response is being sent.
        case writing
        /// The response is waiting for a deadline or a gate, or has stalled.
        case pausing
        /// The response has been sent. Further input is discarded until the client closes, because closing first would
        /// reset the connection and could lose the response (RFC 9112 section 9.6).
        case draining
        case closed
    }

    let id: UInt64
    let descriptor: Int32
    var phase = Phase.reading
    /// The events that epoll currently watches.
    var interest: UInt32 = 0
    /// Whether the client has closed its side.
    var peerHasClosed = false
    /// The TLS session; nil without TLS.
    var tls: TLSSession?

    var input: [UInt8] = []
    var inputStart = 0
    var output: [UInt8] = []
    var outputStart = 0

    var parser: RequestParser
    var head: RequestHead?
    var route: RouteTable.Match = .none
    var body = Data()
    var bodyLength = 0
    var checksum = BodyChecksum()
    var discardsBody = false
    var arrivedAt: UInt64 = 0
    var arrivalDate = Date.distantPast

    var writer: ResponseWriter?
    /// The step to perform once `output` has been sent.
    var pendingStep: ResponseWriter.Step?
    /// The number of the request, so that a late response or gate does not affect a later request.
    var exchange: UInt64 = 0
    /// The timer that ends a pause or the draining, created on first use.
    var timer: RunLoopTimer?
    /// The number of milliseconds that a reset has waited for the client to acknowledge the bytes sent before it.
    var resetAttempts = 0
    /// Whether the request counts as active in the statistics.
    var isActive = false

    init(id: UInt64, descriptor: Int32, limit: Int) {
        self.id = id
        self.descriptor = descriptor
        parser = RequestParser(limit: limit)
    }

    /// Whether output is waiting to be sent, encrypted or not.
    var hasOutput: Bool { outputStart < output.count || tls?.hasOutput ?? false }
    /// Whether the phase allows reading from the socket without a limit on the buffered input.
    var wantsInput: Bool { phase == .reading || phase == .draining || phase == .handshaking }
    var inputCount: Int { input.count - inputStart }

    /// Empties the output buffer after everything has been sent.
    func clearOutput() {
        output.removeAll(keepingCapacity: output.capacity <= 1 << 18)
        outputStart = 0
    }

    /// Returns the parser's next event, and removes the bytes that the parser has consumed.
    func nextEvent() -> RequestParser.Event {
        let (consumed, event) = input.withUnsafeBytes {
            parser.next(UnsafeRawBufferPointer(rebasing: $0[inputStart...]))
        }
        if case .body(let range) = event, !range.isEmpty {
            input.withUnsafeBytes { all in
                take(
                    UnsafeRawBufferPointer(rebasing: all[(inputStart + range.lowerBound)..<(inputStart + range.upperBound)]))
            }
        }
        inputStart += consumed
        if inputStart == input.count {
            input.removeAll(keepingCapacity: input.capacity <= 1 << 18)
            inputStart = 0
        } else if inputStart > 1 << 16 {
            input.removeSubrange(..<inputStart)
            inputStart = 0
        }
        return event
    }

    private func take(_ bytes: UnsafeRawBufferPointer) {
        bodyLength += bytes.count
        checksum.update(bytes)
        if !discardsBody { body.append(contentsOf: bytes) }
    }

    /// Returns the received request as a `RecordedRequest`.
    func recorded(_ head: RequestHead, trailers: TestServer.Headers, now: UInt64) -> RecordedRequest {
        let (path, query) = head.pathAndQuery
        return RecordedRequest(
            method: head.method, target: head.target, path: path, query: query, version: head.version,
            headers: head.headers, trailers: trailers, body: body, bodyLength: bodyLength, bodyChecksum: checksum,
            connection: Int(id), arrivedAt: arrivalDate, uploadDuration: TimeInterval(now &- arrivedAt) / 1e9,
            expectsContinue: head.expectsContinue, tls: tls?.details)
    }

    /// Resets the request state for the next request.
    func clearRequest() {
        head = nil
        route = .none
        body = Data()
        bodyLength = 0
        checksum = BodyChecksum()
        discardsBody = false
        writer = nil
        pendingStep = nil
        exchange += 1
    }
}
