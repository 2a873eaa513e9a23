import ConvoySharedQueue
import ConvoySupport
import Dispatch
import Foundation

/// `convoy queue serve`: a web page on this machine that shows and changes a queue.
enum QueueServe {
    static func run(_ options: Options, _ queue: SharedQueue, _ display: Display) throws(ToolError) -> ExitStatus {
        if options.arguments.count > 1 {
            throw options.usage("unexpected argument '\(Printable.line(options.arguments[1]))'")
        }
        let port = UInt16(try options.integer("port", in: 0...65_535) ?? 0)
        // Connect now, to report problems with the store immediately.
        try QueueCall.connect(queue, display, options)
        let site = QueueSite(queue)
        let server = try LoopbackAddress.serve(port) { site.response(to: $0) }
        site.setPort(server.port)
        let address = "http://127.0.0.1:\(server.port)/?token=\(site.token)"
        if options.has("json") {
            var line = JSONLine()
            line.add("url", address)
            display.emit(line.text)
        } else {
            display.say("The queue is at \(address)")
            display.say("Anyone with this address can change the queue. Press Ctrl-C to stop.")
        }
        let isOver = DispatchSemaphore(value: 0)
        Interruption.shared.onInterrupt { isOver.signal() }
        isOver.wait()
        server.stop()
        return Interruption.shared.status ?? .success
    }
}

/// The responses of the web page. Everything except the metrics requires the token.
final class QueueSite: Sendable {
    /// The token in the address that is printed at the start.
    let token: String
    private let queue: SharedQueue
    /// A separate connection for changes, which may be slow, so that the page can be viewed in the meantime.
    private let changes: SharedQueue
    private let cookie = Locked("convoy")

    init(_ queue: SharedQueue) {
        self.queue = queue
        changes = SharedQueue(store: queue.store)
        var generator = SystemRandomNumberGenerator()
        token = (0..<4).map { _ in
            let digits = String(generator.next() as UInt64, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    /// Sets the port, which is part of the cookie's name, because a browser sends the cookies of a host to all its ports.
    func setPort(_ port: UInt16) { cookie.withLock { $0 = "convoy-\(port)" } }

    func response(to request: LoopbackServer.Request) -> LoopbackServer.Response {
        guard LoopbackAddress.isLoopback(request) else { return .refusal(403, "The Host header must name this machine.") }
        let (path, query) = QueueQuery.parts(of: request.path)
        switch (request.method, path) {
        case ("GET", "/metrics"), ("HEAD", "/metrics"): return QueueMetrics.response(queue, nil)
        case ("GET", _), ("HEAD", _): return show(path, query, request)
        case ("POST", _): return change(path, query, request)
        default: return .refusal(405, "Only GET and POST are supported.")
        }
    }

    // MARK: Access

    /// Returns whether two strings are equal, in a time that does not depend on where they differ.
    static func isSame(_ one: String, _ other: String) -> Bool {
        let (one, other) = (Array(one.utf8), Array(other.utf8))
        guard one.count == other.count else { return false }
        return zip(one, other).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private func hasCookie(_ request: LoopbackServer.Request) -> Bool {
        let name = cookie.withLock { $0 }
        return (request.fields["cookie"] ?? "").split(separator: ";").contains { pair in
            let parts = pair.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
            return parts.count == 2 && parts[0] == name && Self.isSame(parts[1], token)
        }
    }

    private static let noAccess = LoopbackServer.Response.refusal(
        403, "The token is missing or invalid. Open the address that convoy queue serve has printed.")

    // MARK: Showing

    private func show(
        _ path: String, _ query: QueueQuery, _ request: LoopbackServer.Request
    ) -> LoopbackServer.Response {
        if let given = query["token"] {
            guard Self.isSame(given, token) else { return Self.noAccess }
            // Remove the token from the address, which is visible in the history and in screenshots.
            let name = cookie.withLock { $0 }
            return redirection(
                to: "\(path)\(query.without("token"))",
                ["Set-Cookie": "\(name)=\(token); Path=/; HttpOnly; SameSite=Strict"])
        }
        guard hasCookie(request) else { return Self.noAccess }
        switch path {
        case "/style.css": return Self.file(QueuePageFiles.style, "text/css; charset=utf-8")
        case "/page.js": return Self.file(QueuePageFiles.script, "text/javascript; charset=utf-8")
        case "/": return page { [queue, token] in try await QueueView(queue, query).page(token) }
        case "/entry":
            guard let id = query["id"].flatMap({ UUID(uuidString: $0) }) else { return .refusal(404, "Unknown entry.") }
            return page { [queue, token] in try await QueueView.entryPage(queue, id, token) }
        default: return .refusal(404, "Page not found.")
        }
    }

    private func page(_ body: @escaping @Sendable () async throws -> String) -> LoopbackServer.Response {
        do throws(ToolError) {
            return Self.file(try QueueCall.result(body), "text/html; charset=utf-8")
        } catch {
            return Self.file(QueueView.problemPage(error.text), "text/html; charset=utf-8", status: 503)
        }
    }

    private static func file(_ text: String, _ type: String, status: Int = 200) -> LoopbackServer.Response {
        LoopbackServer.Response(
            status: status,
            fields: [
                "Content-Type": type, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
                "Content-Security-Policy":
                    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
                    + "frame-ancestors 'none'; base-uri 'none'",
            ], body: Data(text.utf8))
    }

    private func redirection(to place: String, _ fields: [String: String] = [:]) -> LoopbackServer.Response {
        let all = ["Location": place, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"]
        return LoopbackServer.Response(status: 303, fields: all.merging(fields) { $1 })
    }

    // MARK: Changing

    /// Processes a form with the token. Another site can make a browser submit a form, but does not have the token.
    private func change(
        _ path: String, _ query: QueueQuery, _ request: LoopbackServer.Request
    ) -> LoopbackServer.Response {
        let form = QueueQuery(String(decoding: request.body, as: UTF8.self))
        guard let given = form["token"], Self.isSame(given, token), hasCookie(request) else { return Self.noAccess }
        if let origin = request.fields["origin"] {
            guard let here = request.fields["host"], let one = Target(origin), one == Target("http://\(here)") else {
                return .refusal(403, "The form was sent from another origin.")
            }
        }
        let back = redirection(to: "/\(query)")
        do throws(ToolError) {
            switch path {
            case "/pause": try QueueCall.result { [changes] in try await changes.pause() }
            case "/resume": try QueueCall.result { [changes] in try await changes.resume() }
            case "/entries": try change(form, query)
            default: return .refusal(404, "Page not found.")
            }
            return back
        } catch {
            return Self.file(QueueView.problemPage(error.text), "text/html; charset=utf-8", status: 503)
        }
    }

    private func change(_ form: QueueQuery, _ query: QueueQuery) throws(ToolError) {
        let actions: [String: @Sendable (SharedQueue, SharedQueue.Filter) async throws -> Int] = [
            "retry": { try await $0.retry($1) }, "cancel": { try await $0.cancel($1) },
        ]
        for (name, action) in actions {
            // The value is the ID of an entry, or "all" for all entries that match the filter of the page.
            guard let value = form[name] else { continue }
            let filter: SharedQueue.Filter
            if value == "all" {
                filter = query.filter
            } else if let id = UUID(uuidString: value) {
                filter = SharedQueue.Filter(id: id)
            } else {
                continue
            }
            _ = try QueueCall.result { [changes] in try await action(changes, filter) }
        }
    }
}

/// The items of a query or a form.
struct QueueQuery: Sendable, CustomStringConvertible {
    private var items: [(name: String, value: String)] = []

    init(_ text: String) {
        for item in text.split(separator: "&") {
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map { part in
                String(part).replacing("+", with: " ").removingPercentEncoding ?? ""
            }
            items.append((parts[0], parts.count > 1 ? parts[1] : ""))
        }
    }

    /// Returns the path and the query of a request target.
    static func parts(of target: String) -> (path: String, query: QueueQuery) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        return (parts[0], QueueQuery(parts.count > 1 ? parts[1] : ""))
    }

    subscript(name: String) -> String? { items.first { $0.name == name }?.value }

    func without(_ name: String) -> QueueQuery {
        var query = self
        query.items.removeAll { $0.name == name }
        return query
    }

    func setting(_ name: String, _ value: String?) -> QueueQuery {
        var query = without(name)
        if let value { query.items.append((name, value)) }
        return query
    }

    /// The query with its question mark, or an empty string.
    var description: String {
        items.isEmpty ? "" : "?" + items.map { "\(Self.encoded($0.name))=\(Self.encoded($0.value))" }.joined(separator: "&")
    }

    private static let plain = CharacterSet(
        charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")

    private static func encoded(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: plain) ?? "" }

    /// The entries that the page shows.
    var filter: SharedQueue.Filter {
        var filter = SharedQueue.Filter()
        if let state = self["state"].flatMap({ WorkState(rawValue: $0) }) { filter.states = [state] }
        (filter.tag, filter.group, filter.host) = (self["tag"], self["group"], self["host"])
        return filter
    }
}
