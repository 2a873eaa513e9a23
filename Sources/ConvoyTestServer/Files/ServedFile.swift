import ConvoySupport
import Foundation

/// Bytes with validators, served like a static file.
struct ServedFile: Sendable {
    var content: TestServer.Response.Body
    var contentType: String
    var etag: String?
    var lastModified: Date?
    var ranges: TestServer.RangeBehaviour

    /// The response to a request, with preconditions evaluated in the order of RFC 9110 section 13.2.2.
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

    /// Rounded down to the second, as on the wire.
    private var modified: Date? {
        lastModified.map { Date(timeIntervalSince1970: $0.timeIntervalSince1970.rounded(.down)) }
    }

    /// Whether an If-Range condition holds (RFC 9110 section 13.1.5): a strong comparison, or exactly the date.
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
        // A comma may be part of a tag, so the list is not split at commas but at quotes.
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
