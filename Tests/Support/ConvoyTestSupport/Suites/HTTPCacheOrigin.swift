import Foundation

/// The origin of one test of `HTTPCacheSuite`, which responds like the suite's own server.
package struct HTTPCacheOrigin: Sendable {
    package typealias Field = (name: String, value: String)

    /// A received request, as recorded by the suite's server.
    package struct Arrival: Sendable {
        /// The number that the client assigned to the request.
        package var number: Int
        package var method: String
        /// The fields by name in lower case.
        package var fields: [String: String]
        /// The values sent, which the client must receive.
        package var sent: [Field]
    }

    package struct Reply: Sendable {
        package var status: Int
        package var fields: [Field]
        package var body: String
    }

    package let test: HTTPCacheSuite.Test
    /// A token that makes the URL unique, and is the body if the test does not specify one.
    package let token: String
    package private(set) var arrivals: [Arrival] = []
    /// The fields of the response to each step, with their dates as sent.
    private var written: [Int: [Field]] = [:]

    package init(_ test: HTTPCacheSuite.Test, token: String) {
        self.test = test
        self.token = token
    }

    /// Returns the path and the query of a step.
    package func target(_ step: HTTPCacheSuite.Step) -> String {
        "/test/\(token)" + (step.filename.map { "/\($0)" } ?? "") + (step.query_arg.map { "?\($0)" } ?? "")
    }

    /// Returns the response to a request.
    ///
    /// - Parameters:
    ///   - fields: The received fields; those of one name are joined.
    ///   - now: The time, in milliseconds since 1970.
    /// - Returns: The response; nil if the connection is closed instead.
    package mutating func answer(method: String, target: String, fields: [Field], now: Int64) -> Reply? {
        let received = Dictionary(fields.map { ($0.name.lowercased(), $0.value) }) { "\($0), \($1)" }
        let number = received["req-num"].flatMap { Int($0) } ?? arrivals.count + 1
        guard test.requests.indices.contains(number - 1) else { return Reply(status: 409, fields: [], body: "") }
        let step = test.requests[number - 1]
        var reply: [Field] = [
            ("Server-Base-Url", target), ("Server-Request-Count", String(arrivals.count + 1)),
            ("Client-Request-Count", String(number)), ("Server-Now", String(now)),
        ]
        var status = step.response_status?.first?.number ?? 200
        if step.expected_type?.hasSuffix("validated") == true {
            let previous = written[number - 1] ?? planned(number - 1)
            func matches(_ request: String, _ response: String) -> Bool {
                guard let value = previous.first(where: { $0.name.lowercased() == response })?.value else { return false }
                return received[request] == value
            }
            status = matches("if-modified-since", "last-modified") || matches("if-none-match", "etag") ? 304 : 999
        }
        var own: [Field] = []
        var saved: [Field] = []
        for entry in step.response_headers ?? [] {
            guard entry.count >= 2, let name = entry[0].text else { continue }
            let field = (name, Self.value(entry[1], name, step, target: target, now: now))
            own.append(field)
            guard entry.count < 3 || entry[2] == .flag(true) else { continue }
            let all = own.filter { $0.name == name }.map(\.value).joined(separator: ", ")
            saved.removeAll { $0.name == name }
            saved.append((name, all))
        }
        written[number] = own
        reply += own
        if !own.contains(where: { $0.name.lowercased() == "content-type" }) {
            reply.append(("Content-Type", "text/plain"))
        }
        // Servers add a Date by default.
        if !own.contains(where: { $0.name.lowercased() == "date" }) { reply.append(("Date", Self.date(now, 0))) }
        arrivals.append(Arrival(number: number, method: method, fields: received, sent: saved))
        reply.append(("Request-Numbers", arrivals.map { String($0.number) }.joined(separator: " ")))
        if step.disconnect == true { return nil }
        let hasBody = status != 204 && status != 304 && method != "HEAD"
        let text = step.response_body.flatMap { $0.isEmpty ? nil : $0 } ?? token
        return Reply(status: status, fields: reply, body: hasBody ? text : "")
    }

    /// Returns the planned fields of a step whose request did not arrive, except for those with numbers.
    private func planned(_ number: Int) -> [Field] {
        guard test.requests.indices.contains(number - 1) else { return [] }
        return (test.requests[number - 1].response_headers ?? []).compactMap { entry in
            guard entry.count >= 2, let name = entry[0].text, let value = entry[1].text else { return nil }
            return (name, value)
        }
    }

    /// Returns the value of a field. A number in a date field means seconds from now.
    package static func value(
        _ value: HTTPCacheSuite.Value, _ name: String, _ step: HTTPCacheSuite.Step, target: String, now: Int64
    ) -> String {
        let name = name.lowercased()
        switch value {
        case .number(let seconds) where dateFields.contains(name):
            return date(now, seconds, isRFC850: step.rfc850date?.contains(name) == true)
        case .number(let number): return String(number)
        case .text(let text):
            guard step.magic_locations == true, name == "location" || name == "content-location" else { return text }
            return text.isEmpty ? target : "\(target)/\(text)"
        case .null, .flag: return ""
        }
    }

    private static let dateFields: Set<String> = [
        "date", "expires", "last-modified", "if-modified-since", "if-unmodified-since",
    ]

    private static func date(_ now: Int64, _ seconds: Int, isRFC850: Bool = false) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = isRFC850 ? "EEEE, dd-MMM-yy HH:mm:ss 'GMT'" : "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date(timeIntervalSince1970: Double(now / 1000) + Double(seconds)))
    }
}
