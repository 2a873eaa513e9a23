import ConvoySharedQueue
import ConvoySupport
import Foundation

/// The responses of the web page. Everything except the metrics requires the token.
///
/// All links are relative to the directory of the page, so that it works under any path of a proxy.
final class QueueSite: Sendable {
    /// The token in the address that is printed at the start.
    let token: String
    private let queue: SharedQueue
    /// A separate connection for changes, which may be slow, so that the page can be viewed in the meantime.
    private let changes: SharedQueue
    private let proxy: QueueProxy?
    private let cookie = Locked("convoy")

    init(_ queue: SharedQueue, _ proxy: QueueProxy? = nil) {
        self.queue = queue
        self.proxy = proxy
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
        guard LoopbackAddress.isLoopback(request) || isProxied(request) else {
            return .refusal(403, "The Host header must name this machine.")
        }
        var (path, query) = QueueQuery.parts(of: request.path)
        if let base = proxy?.path, base != "/" {
            // The proxy may forward the whole path, or the rest of it.
            if "\(path)/" == base { return Self.redirection(to: "./\(path.split(separator: "/").last ?? ".")/\(query)") }
            if path.hasPrefix(base) { path = String(path.dropFirst(base.count - 1)) }
        }
        switch (request.method, path) {
        case ("GET", "/metrics"), ("HEAD", "/metrics"):
            // A proxy would make them public.
            guard proxy == nil || hasCookie(request) else { return Self.noAccess }
            return QueueMetrics.response(queue, nil)
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

    /// Returns whether the request names the host of the proxy.
    private func isProxied(_ request: LoopbackServer.Request) -> Bool {
        guard let proxy, let host = request.fields["host"] else { return false }
        return Target("\(proxy.target.scheme)://\(host)") == proxy.target
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
            guard ["/", "/entry", "/confirm"].contains(path) else { return Self.unknownPage }
            // Remove the token from the address, which is visible in the history and in screenshots. Without a path, the
            // cookie applies to the directory of the page only.
            let name = cookie.withLock { $0 }
            return Self.redirection(
                to: "./\(path.dropFirst())\(query.without("token"))",
                [
                    "Set-Cookie":
                        "\(name)=\(token); HttpOnly; SameSite=Strict\(proxy?.target.isSecure == true ? "; Secure" : "")"
                ])
        }
        guard hasCookie(request) else { return Self.noAccess }
        switch path {
        case "/style.css": return Self.file(QueuePageFiles.style, "text/css; charset=utf-8")
        case "/page.js": return Self.file(QueuePageFiles.script, "text/javascript; charset=utf-8")
        case "/": return page { [queue, token] in try await QueueView(queue, query).page(token) }
        case "/confirm":
            guard let action = query["action"].flatMap({ QueueChange(rawValue: $0) }) else { return Self.unknownPage }
            let selected = query.without("action")
            return page { [queue, token] in try await QueueView.confirmation(queue, action, selected, token) }
        case "/entry":
            guard let id = query["id"].flatMap({ UUID(uuidString: $0) }) else { return .refusal(404, "Unknown entry.") }
            return page { [queue, token] in try await QueueView.entryPage(queue, id, token) }
        default: return Self.unknownPage
        }
    }

    private static let unknownPage = LoopbackServer.Response.refusal(404, "Page not found.")

    private func page(_ body: @escaping @Sendable () async throws -> String) -> LoopbackServer.Response {
        do throws(ToolError) {
            return Self.file(try QueueCall.result(body), "text/html; charset=utf-8")
        } catch {
            return Self.problem(error)
        }
    }

    private static func problem(_ error: ToolError) -> LoopbackServer.Response {
        // The database cannot be used, or the request cannot be fulfilled in the current state of the queue.
        let status = error.status == .failed(.connection) ? 503 : 409
        return file(QueueView.problemPage(error.text), "text/html; charset=utf-8", status: status)
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

    private static func redirection(to place: String, _ fields: [String: String] = [:]) -> LoopbackServer.Response {
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
            let here = request.fields["host"].flatMap { Target("http://\($0)") }
            guard let one = Target(origin), one == here || one == proxy?.target else {
                return .refusal(403, "The form was sent from another origin.")
            }
        }
        do throws(ToolError) {
            switch path {
            case "/pause": try QueueCall.result { [changes] in try await changes.pause() }
            case "/resume": try QueueCall.result { [changes] in try await changes.resume() }
            case "/entries": return try changeEntries(form, query)
            default: return Self.unknownPage
            }
            return Self.redirection(to: "./\(query)")
        } catch {
            return Self.problem(error)
        }
    }

    private func changeEntries(
        _ form: QueueQuery, _ query: QueueQuery
    ) throws(ToolError) -> LoopbackServer.Response {
        for action in QueueChange.allCases {
            // The value is the ID of an entry, or "all" for all entries that match the filter of the page.
            guard let value = form[action.rawValue] else { continue }
            if value == "all" {
                guard form["confirmed"] == "yes" else {
                    return Self.redirection(to: "confirm\(query.setting("action", action.rawValue))")
                }
                let filter = action.filter(query.changeFilter)
                _ = try QueueCall.result { [changes] in try await action.apply(to: filter, in: changes) }
                return Self.redirection(to: "./\(query.without("id"))")
            }
            guard let id = UUID(uuidString: value) else { continue }
            let filter = action.filter(SharedQueue.Filter(id: id))
            _ = try QueueCall.result { [changes] in try await action.apply(to: filter, in: changes) }
        }
        let entry = query["entry"].flatMap { UUID(uuidString: $0) }
        return Self.redirection(to: entry.map { "entry?id=\($0.text)" } ?? "./\(query)")
    }
}

/// A change to entries that the page offers.
enum QueueChange: String, CaseIterable, Sendable {
    case retry, resume, pause, cancel

    /// Returns the changes that are available in a state. An entry that has ended cannot be cancelled.
    static func available(in state: WorkState) -> [QueueChange] {
        switch state {
        case .done: []
        case .failed, .cancelled: [.retry]
        case .leased, .ready: [.pause, .cancel]
        case .waiting, .held, .retrying: [.retry, .pause, .cancel]
        case .paused: [.resume, .cancel]
        }
    }

    /// The label of a button, for entries in a state.
    func label(_ state: WorkState?) -> String {
        self == .retry && (state == .waiting || state == .held) ? "Start" : rawValue.capitalized
    }

    /// Returns the filter without entries for which the page does not offer the change.
    func filter(_ filter: SharedQueue.Filter) -> SharedQueue.Filter {
        var filter = filter
        let states = Set(WorkState.allCases.filter { Self.available(in: $0).contains(self) })
        filter.states = filter.states?.intersection(states) ?? states
        return filter
    }

    func apply(to filter: SharedQueue.Filter, in queue: SharedQueue) async throws -> Int {
        switch self {
        case .retry: try await queue.retry(filter)
        case .resume: try await queue.resume(filter)
        case .pause: try await queue.pause(filter)
        case .cancel: try await queue.cancel(filter)
        }
    }
}
