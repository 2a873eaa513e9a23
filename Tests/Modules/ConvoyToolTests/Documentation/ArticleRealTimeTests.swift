import Convoy
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The behaviour of the code in the article about real time.
@Suite struct ArticleRealTimeTests {
    private struct Document: Decodable, Sendable { let title: String }

    private let server: TestServer
    private let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(
            baseURL: server.url, completionQueue: DispatchQueue(label: "Convoy.Articles"))
    }

    private func serve(_ events: String, at path: String) {
        server.route("GET", path, .chunked([events], type: "text/event-stream").stalls(afterBytes: events.utf8.count))
    }

    @Test func `a loop receives events until it exits`() async throws {
        serve("data: 1\n\nevent: last\ndata: 2\n\n", at: "/prices")
        var prices: [String] = []
        // Article: RealTime
        for try await event in try manager.events("prices") {
            prices.append(event.data)
            if event.type == "last" { break }
        }
        // Article: end
        #expect(prices == ["1", "2"])
    }

    @Test func `an event source can depend on other operations`() async throws {
        serve("event: last\ndata: 2\n\n", at: "/prices")
        server.route("GET", "/login", .json(["token": "t"]))
        server.route("GET", "/order", .json(["id": 1]))
        let login = try manager.makeOperation(.get, "login"), order = try manager.makeOperation(.get, "order")
        manager.enqueue(login)
        let heard = Locked<[String]>([])
        @Sendable func show(_ text: String) { heard.withLock { $0.append(text) } }
        // Article: RealTime
        let source = try manager.makeEventSource("prices")
        source.readTimeout = 45
        source.addListener(forEvent: "last") { event in show(event.data) }
        source.addDependency(login)
        manager.enqueue(source)
        order.addDependency(source.opening)
        manager.enqueue(order)
        // Article: end
        try await order.finished()
        try await waitUntil("the event") { heard.withLock { $0 } == ["2"] }
        source.close()
        try await source.finished()
        #expect(server.requests.map(\.path) == ["/login", "/prices", "/order"])
    }

    @Test func `a document is patched, and the inverse patch is sent`() async throws {
        server.route("PATCH", "/documents/7", .status(204))
        // Article: RealTime
        var document: JSON = ["title": "Draft", "tags": ["new"]]
        let patch: JSONPatch = [
            .test(path: ["title"], value: "Draft"), .replace(path: ["title"], value: "Final"), .remove(path: ["tags", "0"]),
        ]
        try patch.apply(to: &document)
        let back = JSONPatch(from: document, to: ["title": "Draft", "tags": ["new"]])
        try await manager.patch("documents/7", body: back)
        // Article: end
        #expect(document == ["title": "Final", "tags": []])
        let sent = try #require(server.requests("/documents/7").first)
        #expect(sent.headers["Content-Type"] == "application/json-patch+json")
        #expect(try document.applying(JSONPatch(parsing: sent.body)) == ["title": "Draft", "tags": ["new"]])
    }

    @Test func `a document follows the changes on the server`() async throws {
        let events =
            "event: put\nid: 1\ndata: {\"title\": \"Draft\"}\n\n"
            + "event: patch\nid: 2\ndata: [{\"op\": \"replace\", \"path\": \"/title\", \"value\": \"Final\"}]\n\n"
        serve(events, at: "/documents/7")
        let heard = Locked<[String]>([])
        func show(_ text: String) { heard.withLock { $0.append(text) } }
        // Article: RealTime
        let subscription = manager.subscribe("documents/7", method: .get, as: Document.self)
        for try await document in subscription.values {
            show(document.title)
            if document.title == "Final" { break }
        }
        subscription.close()
        // Article: end
        #expect(heard.withLock { $0 }.last == "Final")
    }
}
