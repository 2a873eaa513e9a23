import ConvoySupport
import Foundation

extension TestServer {
    /// A response of the server: a head, a body, and faults, all as plain data.
    ///
    /// Create one with a factory method (`text`, `json`, `bytes`, `pattern`, `chunked`, `drip`, `raw` …) and change it
    /// with modifiers (`delayed`, `stalls`, `resets` …), each of which returns a changed copy.
    public struct Response: Sendable {
        /// The source of a body's bytes.
        public enum Body: Sendable {
            /// No body.
            case none
            /// The given bytes.
            case data(Data)
            /// The given parts, each as one HTTP chunk unless `framing` specifies otherwise.
            case chunks([Data])
            /// `count` bytes of `PatternBytes` beginning at `offset`, generated while they are being sent.
            case pattern(count: Int, offset: Int)
            /// The given bytes instead of a head and a body. They need not be valid HTTP.
            case raw(Data)
        }

        /// The way in which the end of the body is indicated (RFC 9112 section 6).
        public enum Framing: Hashable, Sendable {
            /// A Content-Length, or chunks for `Body.chunks`. A Content-Length or Transfer-Encoding in `headers` takes
            /// precedence; the field and the body are then sent unchanged.
            case automatic
            /// The given Content-Length, right or wrong, even with a status that has no body (204, 304). The bytes are
            /// sent unchanged; if their number differs from the Content-Length, the connection is closed after them.
            case contentLength(Int)
            /// Chunked framing (RFC 9112 section 7.1).
            case chunked
            /// Neither Content-Length nor chunks. The body ends with the connection.
            case closeDelimited
        }

        /// The status code. Any number is possible; HTTP defines 100 to 999.
        public var status: Int
        /// The reason phrase; nil for the standard phrase of the status.
        package var reason: String?
        /// The header fields in order, sent before those added for the framing.
        public var headers: Headers
        /// The body, to which the framing is added.
        public var body: Body
        /// The way in which the end of the body is indicated.
        package var framing: Framing
        /// The fields after the last chunk, sent only if the body is chunked.
        package var trailers: Headers
        /// Whether the connection is closed after this response, as announced by "Connection: close".
        package var closesConnection: Bool
        /// The informational responses (1xx) to send first. Only their status, reason and headers are used.
        package var interim: [Response]
        /// The delays, speed and faults of the response.
        package var effects: Effects

        /// Creates a response. The other properties have their defaults: automatic framing, a keep-alive connection and
        /// no effects.
        public init(status: Int = 200, reason: String? = nil, headers: Headers = [:], body: Body = .none) {
            self.status = status
            self.reason = reason
            self.headers = headers
            self.body = body
            framing = .automatic
            trailers = [:]
            closesConnection = false
            interim = []
            effects = Effects()
        }
    }
}

extension TestServer.Response.Body {
    /// The size of the body in bytes, before framing.
    public var count: Int {
        switch self {
        case .none: 0
        case .data(let data), .raw(let data): data.count
        case .chunks(let chunks): chunks.reduce(0) { $0 + $1.count }
        case .pattern(let count, _): max(0, count)
        }
    }
}

extension TestServer.Response {
    /// Creates a response with UTF-8 text.
    public static func text(_ text: String, status: Int = 200) -> Self {
        bytes(Data(text.utf8), type: "text/plain; charset=utf-8", status: status)
    }

    /// Creates a response with a value as JSON. If it cannot be encoded, the response is a 500 with the reason.
    public static func json(_ value: some Encodable, status: Int = 200) -> Self {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return bytes(try encoder.encode(value), type: "application/json", status: status)
        } catch {
            return .text("The response could not be encoded as JSON: \(error)", status: 500)
        }
    }

    /// Creates a JSON response from a string. A JSON array or object is sent unchanged, any other string as a quoted
    /// string.
    public static func json(_ text: String, status: Int = 200) -> Self {
        if (try? JSONSerialization.jsonObject(with: Data(text.utf8))) != nil { return json(text: text, status: status) }
        return json(String?.some(text), status: status)
    }

    /// Creates a response with JSON text, valid or not.
    public static func json(text: String, status: Int = 200) -> Self {
        bytes(Data(text.utf8), type: "application/json", status: status)
    }

    /// Creates a response with bytes of a media type.
    public static func bytes(_ data: Data, type: String = "application/octet-stream", status: Int = 200) -> Self {
        Self(status: status, headers: ["Content-Type": type], body: .data(data))
    }

    /// Creates a response without a body.
    public static func status(_ status: Int, headers: TestServer.Headers = [:]) -> Self {
        Self(status: status, headers: headers)
    }

    /// Creates a redirect (RFC 9110 section 15.4). The location is sent unchanged.
    public static func redirect(to location: String, status: Int = 302) -> Self {
        Self(status: status, headers: ["Location": location])
    }

    /// Creates a response with `count` bytes of `PatternBytes`, generated while they are being sent, so that a body of
    /// many GiB takes no memory.
    public static func pattern(count: Int, offset: Int = 0) -> Self {
        Self(
            headers: ["Content-Type": "application/octet-stream"],
            body: .pattern(count: max(0, count), offset: max(0, offset)))
    }

    /// Creates a response with a chunked body, one HTTP chunk for each part that is not empty, with a pause of
    /// `interval` seconds between them.
    public static func chunked(
        _ chunks: [Data], every interval: TimeInterval = 0, type: String = "application/octet-stream"
    ) -> Self {
        var response = Self(headers: ["Content-Type": type], body: .chunks(chunks))
        if interval > 0 { response.effects.pace = .betweenChunks(interval) }
        return response
    }

    /// Creates a response with a chunked body of strings, one HTTP chunk for each, with a pause of `interval` seconds
    /// between them.
    public static func chunked(_ texts: [String], every interval: TimeInterval = 0, type: String = "text/plain") -> Self {
        chunked(texts.map { Data($0.utf8) }, every: interval, type: type)
    }

    /// Creates a response with a Content-Length, sent in parts of `chunk` bytes with `interval` seconds between them.
    public static func drip(_ data: Data, chunk: Int, interval: TimeInterval) -> Self {
        var response = bytes(data)
        response.effects.pace = .drip(bytes: chunk, interval: interval)
        return response
    }

    /// Creates a response of raw bytes instead of HTTP. The connection is closed after them.
    public static func raw(_ data: Data) -> Self {
        Self(body: .raw(data))
    }

    /// Creates a response of a raw string instead of HTTP. The connection is closed after it.
    public static func raw(_ text: String) -> Self {
        raw(Data(text.utf8))
    }
}

extension TestServer.Response {
    private func changed(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }

    /// Sets the status, and the reason phrase if given.
    public func status(_ status: Int, reason: String? = nil) -> Self {
        changed {
            $0.status = status; $0.reason = reason
        }
    }

    /// Adds a header field after the others.
    public func header(_ name: String, _ value: String) -> Self {
        changed { $0.headers.add(name, value) }
    }

    /// Sets the Content-Length, right or wrong. See `Framing.contentLength(_:)`.
    public func contentLength(_ length: Int) -> Self {
        changed { $0.framing = .contentLength(length) }
    }

    /// Sets the framing of the body.
    public func framed(_ framing: Framing) -> Self {
        changed { $0.framing = framing }
    }

    /// Sets the trailer fields after the last chunk. The body becomes chunked.
    public func trailers(_ trailers: TestServer.Headers) -> Self {
        changed {
            $0.trailers = trailers; $0.framing = .chunked
        }
    }

    /// Adds an informational response (1xx) to send first, after those added earlier.
    public func preceded(by status: Int, headers: TestServer.Headers = [:]) -> Self {
        changed { $0.interim.append(TestServer.Response(status: status, headers: headers)) }
    }

    /// Closes the connection after the response, and adds "Connection: close".
    public func closing() -> Self {
        changed { $0.closesConnection = true }
    }

    /// Delays the head by the given number of seconds.
    public func delayed(_ seconds: TimeInterval) -> Self {
        changed { $0.effects.headDelay = seconds }
    }

    /// Delays the body by the given number of seconds after the head.
    public func delayedBody(_ seconds: TimeInterval) -> Self {
        changed { $0.effects.bodyDelay = seconds }
    }

    /// Holds the head until the gate is opened.
    public func held(by gate: TestServer.Gate) -> Self {
        changed { $0.effects.headGate = gate }
    }

    /// Holds the rest of the body, after `afterBytes` bytes, until the gate is opened.
    public func heldBody(by gate: TestServer.Gate, afterBytes: Int = 0) -> Self {
        changed {
            $0.effects.bodyGate = gate; $0.effects.bodyGateOffset = afterBytes
        }
    }

    /// Limits the number of body bytes per second.
    public func bandwidth(bytesPerSecond: Int) -> Self {
        changed { $0.effects.pace = .bandwidth(bytesPerSecond: bytesPerSecond) }
    }

    /// Sets the fault.
    package func failing(_ fault: TestServer.Effects.Fault) -> Self {
        changed { $0.effects.fault = fault }
    }

    /// Stops sending after the given number of body bytes; the connection stays open.
    public func stalls(afterBytes: Int) -> Self { failing(.stall(afterBytes: afterBytes)) }

    /// Resets the connection (TCP RST) after the given number of body bytes.
    public func resets(afterBytes: Int) -> Self { failing(.reset(afterBytes: afterBytes)) }

    /// Closes the connection normally after the given number of body bytes, although more were announced.
    public func truncated(afterBytes: Int) -> Self { failing(.close(afterBytes: afterBytes)) }

    /// Sends nothing, and leaves the connection open.
    public func stallBeforeHead() -> Self { failing(.stallBeforeHead) }

    /// Resets the connection (TCP RST) instead of sending a response.
    public func resetBeforeHead() -> Self { failing(.resetBeforeHead) }

    /// Closes the connection normally instead of sending a response ("empty reply").
    public func closeBeforeHead() -> Self { failing(.closeBeforeHead) }
}

extension TestServer {
    /// Header fields in the order in which they are transmitted. Duplicates are kept.
    ///
    /// Names are case-insensitive (RFC 9110 section 5.1) and sent exactly as written. Nothing is validated or escaped,
    /// so that tests can send what a broken server would send.
    public struct Headers: Hashable, Sendable, ExpressibleByDictionaryLiteral, CustomStringConvertible {
        /// One line of a header section.
        public struct Field: Hashable, Sendable {
            /// The name as written.
            public var name: String
            /// The value, without surrounding whitespace.
            public var value: String

            /// Creates a field.
            public init(name: String, value: String) {
                self.name = name
                self.value = value
            }
        }

        /// All fields, in order.
        public var fields: [Field]

        /// Creates header fields in the given order.
        public init(_ fields: [Field] = []) {
            self.fields = fields
        }

        /// Creates header fields in the order of the literal. A name may occur more than once.
        public init(dictionaryLiteral elements: (String, String)...) {
            fields = elements.map { Field(name: $0.0, value: $0.1) }
        }

        /// The first value for the given name. Setting it replaces all fields with that name; nil removes them.
        public subscript(name: String) -> String? {
            get {
                for field in fields where HTTPSyntax.isSameField(field.name, name) { return field.value }
                return nil
            }
            set {
                let position = fields.firstIndex { HTTPSyntax.isSameField($0.name, name) }
                guard let newValue else { return fields.removeAll { HTTPSyntax.isSameField($0.name, name) } }
                guard let position else { return add(name, newValue) }
                fields[position].value = newValue
                let rest = fields[(position + 1)...].filter { !HTTPSyntax.isSameField($0.name, name) }
                fields.replaceSubrange((position + 1)..., with: rest)
            }
        }

        /// Returns all values for the given name, in order.
        public func values(for name: String) -> [String] {
            fields.filter { HTTPSyntax.isSameField($0.name, name) }.map(\.value)
        }

        /// Adds a field after the others, even if one with that name already exists.
        public mutating func add(_ name: String, _ value: String) {
            fields.append(Field(name: name, value: value))
        }

        public var description: String {
            fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        }

        /// Returns the elements of a comma-separated list (RFC 9110 section 5.6.1) over all fields with the given name,
        /// in lowercase.
        func tokens(_ name: String) -> [String] {
            values(for: name).flatMap { $0.split(separator: ",") }.map { HTTPSyntax.trimmed($0).lowercased() }
        }
    }
}
