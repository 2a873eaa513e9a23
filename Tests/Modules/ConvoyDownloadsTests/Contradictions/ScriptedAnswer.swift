import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation

/// A scripted response, to be sent over HTTP/1.1 or HTTP/2.
struct ScriptedAnswer: Sendable {
    /// The end of the response, of the connection or of the stream.
    enum End: Sendable {
        case whole
        /// The connection is closed after a number of bytes of the body.
        case closed(after: Int)
        /// The connection is reset after a number of bytes, or the stream is reset with a code.
        case reset(after: Int, code: Int)
        /// The connection is reset, or the stream refused, before a response.
        case refused
        /// The connection is closed before the head.
        case dropped
        /// GOAWAY is sent, over HTTP/2 only. See ``FrameServer/Plan``.
        case goAway(after: Int, code: Int)
        case dataAfterEnd, resetAfterEnd, goAwayAfterEnd
    }

    var status: Int
    var fields: [(String, String)]
    var body: Data
    /// The announced length; nil for a body without a length, which uses chunks in HTTP/1.1.
    var length: Int?
    var end = End.whole
    /// Whether an HTTP/1.1 body without a length ends with the connection, instead of using chunks.
    var isEndedByConnection = false
    var hasInterim = false
    var trailers: [(String, String)] = []
    /// The padding of DATA frames, in bytes, over HTTP/2 only.
    var padding = 0

    init(_ status: Int, _ fields: [(String, String)], _ body: Data) {
        (self.status, self.fields, self.body, length) = (status, fields, body, body.count)
    }

    func with(_ change: (inout Self) -> Void) -> Self {
        var copy = self
        change(&copy)
        return copy
    }

    /// The same response without a length.
    var lengthless: Self { with { $0.length = nil } }
    func adding(_ name: String, _ value: String) -> Self { with { $0.fields.append((name, value)) } }
    func without(_ name: String) -> Self { with { $0.fields.removeAll { $0.0 == name } } }
    func ending(_ end: End) -> Self { with { $0.end = end } }
    func announcing(_ length: Int) -> Self { with { $0.length = length } }

    // MARK: Sending

    /// The rate at which a body is sent.
    struct Pace: Sendable {
        let slice: Int
        let pause: TimeInterval
    }

    private var hasNoBody: Bool { status == 204 || status == 304 }

    /// Creates the response for HTTP/1.1.
    func response(_ pace: Pace) -> TestServer.Response {
        var response = TestServer.Response(status: status, body: hasNoBody ? .none : .data(body))
        for (name, value) in fields { response.headers.add(name, value) }
        if let length, length != body.count { response = response.contentLength(length) }
        if length == nil { response = response.framed(isEndedByConnection ? .closeDelimited : .chunked) }
        for (name, value) in trailers { response.trailers.add(name, value) }
        if hasInterim {
            response = response.preceded(by: 103, headers: ["ETag": "\"interim\"", "Content-Range": "bytes 0-1/2"])
        }
        response.effects.pace = .drip(bytes: pace.slice, interval: pace.pause)
        switch end {
        case .closed(let count): return response.truncated(afterBytes: count)
        case .reset(let count, _), .goAway(let count, _): return response.resets(afterBytes: count)
        case .refused: return response.resetBeforeHead()
        case .dropped: return response.failing(.closeBeforeHead)
        case .whole, .dataAfterEnd, .resetAfterEnd, .goAwayAfterEnd: return response
        }
    }

    /// Creates the script for the ``FrameServer``.
    func plan(_ pace: Pace) throws -> TestServer.Response {
        var fields = fields.map { [$0.0.lowercased(), $0.1] }
        if let length, !hasNoBody { fields.append(["content-length", "\(length)"]) }
        var plan = FrameServer.Plan(status: status, fields: fields, stop: body.count)
        plan.trailers = trailers.map { [$0.0.lowercased(), $0.1] }
        (plan.interim, plan.padding, plan.slice, plan.pause) = (hasInterim, padding, pace.slice, pace.pause)
        switch end {
        case .whole: break
        case .closed(let count): (plan.end, plan.stop) = (.closed, count)
        case .reset(let count, let code): (plan.end, plan.stop, plan.code) = (.reset, count, code)
        case .goAway(let count, let code): (plan.end, plan.stop, plan.code) = (.goaway, count, code)
        case .refused: plan.end = .refused
        case .dropped: plan.end = .dropped
        case .dataAfterEnd: plan.end = .dataAfterEnd
        case .resetAfterEnd: plan.end = .resetAfterEnd
        case .goAwayAfterEnd: plan.end = .goAwayAfterEnd
        }
        let text = String(decoding: try JSONEncoder().encode(plan), as: UTF8.self)
        return TestServer.Response.bytes(hasNoBody ? Data() : body).header("X-Plan", text)
    }
}

/// A request for a scripted resource, and the possible responses.
struct ScriptedExchange: Sendable {
    /// The number of earlier requests.
    let number: Int
    /// The first requested byte; nil without a range.
    let asked: Int?
    /// The last requested byte, if specified.
    let askedLast: Int?
    /// The value of `If-Range`.
    let condition: String?
    /// Whether the request was redirected here.
    let isElsewhere: Bool
    let path: String
    let size: Int
    let seed: UInt64
    /// A number from 0 to 1 that depends only on the seed and the number.
    let chance: Double

    init(_ request: RecordedRequest, number: Int, path: String, size: Int, seed: UInt64) {
        (self.number, self.path, self.size, self.seed) = (number, path, size, seed)
        isElsewhere = request.query == "elsewhere"
        condition = request.headers["If-Range"]
        let range = request.headers["Range"]?.dropFirst("bytes=".count).split(
            separator: "-", omittingEmptySubsequences: false)
        asked = range?.first.flatMap { Int($0) }
        askedLast = range?.last.flatMap { Int($0) }
        var random = SplitMix64(seed: seed &+ UInt64(number) &* 0x9E37_79B9)
        chance = Double.random(in: 0..<1, using: &random)
    }

    // MARK: The representations

    /// Returns the bytes of a version. The second version is longer, the third one empty.
    static func entity(_ version: Int, seed: UInt64, size: Int) -> Data {
        var random = SplitMix64(seed: seed &+ UInt64(version) &* 0xA24B_AED4_963E_E407)
        let count = version == 2 ? 0 : version == 1 ? size + 321 : size
        return Data((0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) })
    }

    func entity(_ version: Int = 0) -> Data { Self.entity(version, seed: seed, size: size) }
    func tag(_ version: Int = 0) -> String { "\"\(seed)-\(version)\"" }

    var offset: Int { min(asked ?? 0, size) }
    var last: Int { min(askedLast ?? .max, size - 1) }
    /// The requested bytes.
    var rest: Data { offset <= last ? entity()[offset...last] : Data() }
    var range: String { "bytes \(offset)-\(last)/\(size)" }

    // MARK: Responses

    /// Returns a status with a body, and the validators of a version.
    func answer(_ status: Int, _ body: Data, of version: Int = 0) -> ScriptedAnswer {
        ScriptedAnswer(status, [("ETag", tag(version)), ("Accept-Ranges", "bytes")], Data(body))
    }

    /// Returns a 200 with all of a version.
    func whole(_ version: Int = 0) -> ScriptedAnswer { answer(200, entity(version), of: version) }

    /// Returns a 206 with the requested range, or a 416.
    func part(_ range: String? = nil, _ body: Data? = nil) -> ScriptedAnswer {
        guard offset < size else { return unsatisfiable(size) }
        return answer(206, body ?? rest).adding("Content-Range", range ?? self.range)
    }

    func unsatisfiable(_ length: Int?) -> ScriptedAnswer {
        let answer = answer(416, Data("no such range".utf8))
        return length.map { answer.adding("Content-Range", "bytes */\($0)") } ?? answer
    }

    /// The response of an honest server with the first version.
    var honest: ScriptedAnswer { asked != nil && (condition == nil || condition == tag()) ? part() : whole() }
}
