import ConvoySupport
import ConvoyTestServer
import Foundation

/// A thread-safe counter that starts at 1.
final class Counter: Sendable {
    private let count = Locked(0)

    func next() -> Int {
        count.withLock { count in
            count += 1
            return count
        }
    }
}

/// A small service: a login, a paginated list, jobs that take some time, files and events.
final class SmallAPI: Sendable {
    static let password = "p/4\"s&s w"
    let server: TestServer
    private let polls = Counter()

    init(items: Int) throws {
        server = try TestServer()
        server.route("POST", "/login") { request in
            guard let login = try? JSONDecoder().decode([String: String].self, from: request.body),
                login["password"] == Self.password
            else { return .json(["error": "wrong password"], status: 403) }
            return .json(["token": "token-of-\(login["user"] ?? "")"])
        }
        secured("GET", "/me") { _ in .json(["name": "ada"]) }
        secured("POST", "/logout") { _ in .status(204) }
        let ids = (1...items).map { "{\"id\": \($0)}" }.joined(separator: ", ")
        server.route("GET", "/items", .json(text: "{\"items\": [\(ids)]}"))
        server.route("GET", "/items/*") { request in
            let id = Int(request.path.split(separator: "/").last ?? "") ?? 0
            return .json(text: "{\"id\": \(id), \"name\": \"item \(id)\"}")
        }
        server.route("GET", "/pages") { request in
            let page = Int(request.target.split(separator: "=").last.map(String.init) ?? "") ?? 1
            let ids = (0..<10).map { "{\"id\": \((page - 1) * 10 + $0)}" }.joined(separator: ", ")
            let next = page < 5 ? "\"/pages?page=\(page + 1)\"" : "null"
            return .json(text: "{\"items\": [\(ids)], \"next\": \(next)}")
        }
        server.route("POST", "/summary", .status(204))
        server.route("POST", "/jobs", .json(text: #"{"id": "j1"}"#, status: 202))
        server.route("GET", "/jobs/j1") { [polls] _ in
            polls.next() < 4
                ? .json(text: #"{"state": "running"}"#, status: 202)
                : .json(text: #"{"state": "done", "result": "/files/7"}"#)
        }
        secured("GET", "/files/*", isOpen: { $0 == "/files/7" }) { request in
            let id = Int(request.path.split(separator: "/").last ?? "") ?? 0
            return .pattern(count: 1000 + id)
        }
        server.route("POST", "/things", .json(text: #"{"id": 5}"#, status: 201))
        server.route("DELETE", "/things/5", .status(204))
        server.route("POST", "/builds", .json(text: #"{"id": "b"}"#, status: 202))
        let events = ["queued", "running", "ready"].map {
            "event: state\ndata: {\"state\": \"\($0)\", \"artifact\": \"/files/7\"}\n\n"
        }
        server.route("GET", "/builds/b/events", .bytes(Data(events.joined().utf8), type: "text/event-stream"))
        server.route("GET", "/users/ada", .json(["name": "ada"]))
    }

    /// Adds a route that requires a token.
    private func secured(
        _ method: String, _ path: String, isOpen: @escaping @Sendable (String) -> Bool = { _ in false },
        _ answer: @escaping @Sendable (RecordedRequest) -> TestServer.Response
    ) {
        server.route(method, path) { request in
            guard isOpen(request.path) || request.headers["Authorization"]?.hasPrefix("Bearer token-of-") == true else {
                return .json(["error": "no token"], status: 401)
            }
            return answer(request)
        }
    }
}
