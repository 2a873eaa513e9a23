import ConvoySupport
import Foundation

extension TestServer {
    /// A response of the server: a head, a body, and faults, all as plain data.
    ///
    /// Built from one of the makers (`text`, `json`, `bytes`, `pattern`, `chunked`, `drip`, `raw` …) and changed by the
    /// modifiers (`delayed`, `stalls`, `resets` …), each of which returns a changed copy.
    public struct Response: Sendable {
        /// The source of a body's bytes.
        public enum Body: Sendable {
            /// No body.
            case none
            /// The given bytes.
            case data(Data)
            /// The given parts, each as one HTTP chunk unless `framing` says otherwise.
            case chunks([Data])
            /// `count` bytes of `PatternBytes` beginning at `offset`, generated while they are sent.
            case pattern(count: Int, offset: Int)
            /// The given bytes in place of head and body, which need not be HTTP.
            case raw(Data)
        }

        /// How the end of the body is marked (RFC 9112 section 6).
        public enum Framing: Hashable, Sendable {
            /// Content-Length, or chunked for `Body.chunks`. A Content-Length or Transfer-Encoding in `headers`
            /// replaces it, and is sent unchanged, with the bytes unchanged.
            case automatic
            /// This Content-Length, right or wrong, even with a status that has no body (204, 304). The bytes are sent
            /// unchanged; if their number differs, the connection is closed after them.
            case contentLength(Int)
            /// Chunked (RFC 9112 section 7.1).
            case chunked
            /// Neither: the body ends with the connection.
            case closeDelimited
        }

        /// The status code. Any number; HTTP has 100 to 999.
        public var status: Int
        /// The reason phrase; nil for the standard one of the status.
        public var reason: String?
        /// Header fields in order, sent before those that the framing adds.
        public var headers: Headers
        /// The body.
        public var body: Body
        /// How the end of the body is marked.
        public var framing: Framing
        /// Fields after the last chunk; sent only when the body is chunked.
        public var trailers: Headers
        /// Whether the connection is closed after this response, announced by "Connection: close".
        public var closesConnection: Bool
        /// Informational responses (1xx) that are sent before it: only their status, reason and headers are used.
        public var interim: [Response]
        /// Delays, speed and faults.
        public var effects: Effects

        /// A response with defaults for everything else: automatic framing, a kept-alive connection, no effects.
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
    /// Text in UTF-8.
    public static func text(_ text: String, status: Int = 200) -> Self {
        bytes(Data(text.utf8), type: "text/plain; charset=utf-8", status: status)
    }

    /// A value as JSON. If it cannot be encoded, the response is a 500 with the reason.
    public static func json(_ value: some Encodable, status: Int = 200) -> Self {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return bytes(try encoder.encode(value), type: "application/json", status: status)
        } catch {
            return .text("The response could not be encoded as JSON: \(error)", status: 500)
        }
    }

    /// A text as JSON: one that is an array or an object of JSON is sent as it is, and any other as a string in quotes.
    public static func json(_ text: String, status: Int = 200) -> Self {
        if (try? JSONSerialization.jsonObject(with: Data(text.utf8))) != nil { return json(text: text, status: status) }
        return json(String?.some(text), status: status)
    }

    /// JSON from text, valid or not.
    public static func json(text: String, status: Int = 200) -> Self {
        bytes(Data(text.utf8), type: "application/json", status: status)
    }

    /// Bytes of a media type.
    public static func bytes(_ data: Data, type: String = "application/octet-stream", status: Int = 200) -> Self {
        Self(status: status, headers: ["Content-Type": type], body: .data(data))
    }

    /// A status without a body.
    public static func status(_ status: Int, headers: TestServer.Headers = [:]) -> Self {
        Self(status: status, headers: headers)
    }

    /// A redirect (RFC 9110 section 15.4). The location is sent unchanged.
    public static func redirect(to location: String, status: Int = 302) -> Self {
        Self(status: status, headers: ["Location": location])
    }

    /// `count` bytes of `PatternBytes`, generated while they are sent: a body of many GiB takes no memory.
    public static func pattern(count: Int, offset: Int = 0) -> Self {
        Self(
            headers: ["Content-Type": "application/octet-stream"],
            body: .pattern(count: max(0, count), offset: max(0, offset)))
    }

    /// A chunked body, one HTTP chunk for each part that is not empty, with a pause of `interval` seconds between them.
    public static func chunked(
        _ chunks: [Data], every interval: TimeInterval = 0, type: String = "application/octet-stream"
    ) -> Self {
        var response = Self(headers: ["Content-Type": type], body: .chunks(chunks))
        if interval > 0 { response.effects.pace = .betweenChunks(interval) }
        return response
    }

    /// A chunked body of texts, one HTTP chunk for each, with a pause of `interval` seconds between them.
    public static func chunked(_ texts: [String], every interval: TimeInterval = 0, type: String = "text/plain") -> Self {
        chunked(texts.map { Data($0.utf8) }, every: interval, type: type)
    }

    /// A body with a Content-Length, sent in parts of `chunk` bytes with `interval` seconds between them.
    public static func drip(_ data: Data, chunk: Int, interval: TimeInterval) -> Self {
        var response = bytes(data)
        response.effects.pace = .drip(bytes: chunk, interval: interval)
        return response
    }

    /// Raw bytes in place of an HTTP response. The connection is closed after them.
    public static func raw(_ data: Data) -> Self {
        Self(body: .raw(data))
    }

    /// Raw text in place of an HTTP response. The connection is closed after it.
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

extension TestServer {
    /// Header fields in their order on the wire. Duplicates are kept.
    ///
    /// Names are case-insensitive (RFC 9110 section 5.1), and sent exactly as written. Nothing is checked or escaped,
    /// so that a test can send what a broken server would send.
    public struct Headers: Hashable, Sendable, ExpressibleByDictionaryLiteral, CustomStringConvertible {
        /// One line of a header section.
        public struct Field: Hashable, Sendable {
            /// The name as written.
            public var name: String
            /// The value, without surrounding whitespace.
            public var value: String

            /// A field of this name and value.
            public init(name: String, value: String) {
                self.name = name
                self.value = value
            }
        }

        /// All fields, in order.
        public var fields: [Field]

        /// Fields in this order.
        public init(_ fields: [Field] = []) {
            self.fields = fields
        }

        /// Fields in the order of the literal; a name may occur more than once.
        public init(dictionaryLiteral elements: (String, String)...) {
            fields = elements.map { Field(name: $0.0, value: $0.1) }
        }

        /// The first value of this name. Setting replaces every field of that name; nil removes them.
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

        /// Every value of this name, in order.
        public func values(for name: String) -> [String] {
            fields.filter { HTTPSyntax.isSameField($0.name, name) }.map(\.value)
        }

        /// Adds a field after the others, even if there is one with that name already.
        public mutating func add(_ name: String, _ value: String) {
            fields.append(Field(name: name, value: value))
        }

        public var description: String {
            fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        }

        /// The elements of a comma-separated list (RFC 9110 section 5.6.1) over all fields of this name, in lower case.
        func tokens(_ name: String) -> [String] {
            values(for: name).flatMap { $0.split(separator: ",") }.map { HTTPSyntax.trimmed($0).lowercased() }
        }
    }
}
