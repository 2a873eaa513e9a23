import ConvoySupport
import Foundation

extension TestServer {
    /// Serves bytes as a static file. Supports GET and HEAD, ETag and Last-Modified, conditional requests (RFC 9110
    /// section 13) and single byte ranges (section 14). A request for several ranges gets the complete file with 200.
    ///
    /// Serving the same path again replaces the file, so that it can change between two requests.
    ///
    /// - Parameters:
    ///   - data: The contents of the file.
    ///   - path: The path, or a prefix that ends in "*".
    ///   - type: The content type.
    ///   - etag: The entity tag exactly as sent, including quotes and "W/".
    ///   - lastModified: The modification date, sent and compared in whole seconds.
    ///   - ranges: The handling of a Range field.
    ///   - adjust: A closure that may change the response to each request, for example to interrupt the first transfer
    ///     and let the resumed one succeed. Called on a handler thread.
    public func serve(
        _ data: Data, at path: String, type: String = "application/octet-stream", etag: String? = nil,
        lastModified: Date? = nil, ranges: RangeBehaviour = .honoured,
        adjust: (@Sendable (RecordedRequest, Response) -> Response)? = nil
    ) {
        let file = ServedFile(
            content: .data(data), contentType: type, etag: etag, lastModified: lastModified, ranges: ranges)
        serve(file, at: path, adjust)
    }

    /// Serves a file of `count` bytes of `PatternBytes`, generated while they are being sent, so that many GiB take no
    /// memory.
    public func servePattern(
        count: Int, at path: String, etag: String? = nil, lastModified: Date? = nil,
        ranges: RangeBehaviour = .honoured, adjust: (@Sendable (RecordedRequest, Response) -> Response)? = nil
    ) {
        let file = ServedFile(
            content: .pattern(count: max(0, count), offset: 0), contentType: "application/octet-stream", etag: etag,
            lastModified: lastModified, ranges: ranges)
        serve(file, at: path, adjust)
    }

    private func serve(_ file: ServedFile, at path: String, _ adjust: (@Sendable (RecordedRequest, Response) -> Response)?) {
        guard let adjust else { return state.setRoute(.computed { file.response(to: $0) }, [], nil, path) }
        state.setRoute(.handler { adjust($0, file.response(to: $0)) }, [], nil, path)
    }
}

extension TestServer {
    /// The way in which a served file responds to a request with a Range field (RFC 9110 section 14).
    public enum RangeBehaviour: Hashable, Sendable {
        /// The behaviour that the RFC specifies: a 206 for one satisfiable range, a 416 for one unsatisfiable range,
        /// and otherwise a 200.
        case honoured
        /// Always a 200 with the complete file.
        case ignored
        /// A 206 that begins the given number of bytes later (or, if negative, earlier) than requested, with matching
        /// Content-Range and bytes.
        case wrongOffset(by: Int)
        /// A 206 whose Content-Range announces a file that is one byte longer.
        case wrongTotal
        /// Always a 416, with "Content-Range: bytes */N".
        case unsatisfiable
        /// A 206 with the right bytes and no Content-Range.
        case noContentRange
        /// A 206 with at most the given number of bytes of the requested range, which the RFC allows.
        case atMost(Int)
    }
}

/// Bytes with validators, served like a static file.
struct ServedFile: Sendable {
    var content: TestServer.Response.Body
    var contentType: String
    var etag: String?
    var lastModified: Date?
    var ranges: TestServer.RangeBehaviour

    /// Returns the response to a request, with preconditions evaluated in the order of RFC 9110 section 13.2.2.
    func response(to request: RecordedRequest) -> TestServer.Response {
        guard request.method == "GET" || request.method == "HEAD" else {
            return .status(405, headers: ["Allow": "GET, HEAD"])
        }
        let headers = request.headers
        if let condition = headers["If-Match"] {
            guard matches(condition, weakly: false) else { return validated(.status(412)) }
        } else if let since = headers["If-Unmodified-Since"].flatMap(HTTPDate.date), let modified {
            guard modified <= since else { return validated(.status(412)) }
        }
        if let condition = headers["If-None-Match"] {
            if matches(condition, weakly: true) { return validated(.status(304)) }
        } else if let since = headers["If-Modified-Since"].flatMap(HTTPDate.date), let modified {
            if modified <= since { return validated(.status(304)) }
        }
        return validated(selected(by: headers, method: request.method))
    }

    private func selected(by headers: TestServer.Headers, method: String) -> TestServer.Response {
        let length = content.count
        guard method == "GET", let field = headers["Range"], ranges != .ignored, ifRangeHolds(headers["If-Range"]),
            let asked = ByteRange.single(field)
        else { return whole }
        guard ranges != .unsatisfiable, var range = asked.resolved(in: length) else {
            return .status(416, headers: ["Content-Range": "bytes */\(length)"])
        }
        var total = length
        switch ranges {
        case .wrongOffset(let shift):
            let (sum, overflow) = range.lowerBound.addingReportingOverflow(shift)
            let start = overflow ? 0 : min(max(0, sum), length - 1)
            range = start..<max(range.upperBound, start + 1)
        case .wrongTotal: total += total < .max ? 1 : 0
        case .atMost(let count): range = range.prefix(max(1, count))
        default: break
        }
        var response = TestServer.Response(
            status: 206, headers: ["Content-Type": contentType], body: part(range))
        if ranges != .noContentRange {
            response.headers.add("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total)")
        }
        return response
    }

    private var whole: TestServer.Response {
        TestServer.Response(headers: ["Content-Type": contentType], body: content)
    }

    private func part(_ range: Range<Int>) -> TestServer.Response.Body {
        switch content {
        case .data(let data): .data(data.dropFirst(range.lowerBound).prefix(range.count))
        case .pattern(_, let offset):
            .pattern(count: range.count, offset: PatternBytes.reduced(offset) + PatternBytes.reduced(range.lowerBound))
        case .none, .chunks, .raw: content
        }
    }

    private func validated(_ response: TestServer.Response) -> TestServer.Response {
        var response = response
        if let etag { response.headers.add("ETag", etag) }
        if let lastModified { response.headers.add("Last-Modified", HTTPDate.string(lastModified)) }
        if ranges != .ignored { response.headers.add("Accept-Ranges", "bytes") }
        return response
    }

    /// The modification date as it is sent, rounded down to the second.
    private var modified: Date? {
        lastModified.map { Date(timeIntervalSince1970: $0.timeIntervalSince1970.rounded(.down)) }
    }

    /// Returns whether an If-Range condition holds (RFC 9110 section 13.1.5): by strong comparison, or by the exact
    /// date.
    private func ifRangeHolds(_ condition: String?) -> Bool {
        guard let condition else { return true }
        if condition.hasPrefix("\"") || condition.hasPrefix("W/") {
            return condition == etag && !condition.hasPrefix("W/")
        }
        return lastModified.map { HTTPDate.string($0) } == condition
    }

    private func matches(_ list: String, weakly: Bool) -> Bool {
        if HTTPSyntax.trimmed(list[...]) == "*" { return true }
        guard let etag else { return false }
        let opaque: (String) -> String = { weakly && $0.hasPrefix("W/") ? String($0.dropFirst(2)) : $0 }
        if !weakly, etag.hasPrefix("W/") { return false }
        // A comma may be part of a tag, so split the list at quotes instead of commas.
        var rest = Substring(list)
        while let open = rest.firstIndex(of: "\"") {
            let after = rest.index(after: open)
            guard let close = rest[after...].firstIndex(of: "\"") else { return false }
            let isWeak = rest[..<open].hasSuffix("W/")
            let tag = (isWeak ? "W/" : "") + rest[open...close]
            if opaque(tag) == opaque(etag), weakly || !isWeak { return true }
            rest = rest[rest.index(after: close)...]
        }
        return false
    }
}

/// One element of a Range field (RFC 9110 section 14.1.2).
enum ByteRange: Equatable {
    /// The bytes from the first offset to the last; to the end if `last` is nil.
    case from(Int, last: Int?)
    /// The given number of bytes at the end.
    case suffix(Int)

    /// Parses a Range field. Returns nil if it must be ignored, because it is not a single byte range.
    static func single(_ field: String) -> ByteRange? {
        guard let equals = field.firstIndex(of: "="), HTTPSyntax.trimmed(field[..<equals]).lowercased() == "bytes" else {
            return nil
        }
        let list = field[field.index(after: equals)...]
        guard !list.contains(",") else { return nil }
        let text = HTTPSyntax.trimmed(list)
        guard let dash = text.firstIndex(of: "-") else { return nil }
        let first = text[..<dash], last = text[text.index(after: dash)...]
        if first.isEmpty { return number(last).map { .suffix($0) } }
        guard let start = number(first) else { return nil }
        if last.isEmpty { return .from(start, last: nil) }
        guard let end = number(last), end >= start else { return nil }
        return .from(start, last: end)
    }

    /// Returns the offsets in a representation of the given length; nil if the range is not satisfiable (416).
    func resolved(in length: Int) -> Range<Int>? {
        switch self {
        case .from(let first, let last):
            guard first < length else { return nil }
            return first..<(min(last ?? .max, length - 1) + 1)
        case .suffix(let count):
            guard count > 0, length > 0 else { return nil }
            return max(0, length - count)..<length
        }
    }

    /// Parses a number. A number that is too large counts as the maximum.
    private static func number(_ digits: Substring) -> Int? {
        guard !digits.isEmpty, digits.utf8.allSatisfy(ASCII.isDigit) else { return nil }
        return Int(digits) ?? .max
    }
}
