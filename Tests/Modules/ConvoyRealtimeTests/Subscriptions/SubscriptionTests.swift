import ConvoyOperations
import ConvoyRealtime
import ConvoySerialization
import ConvoySession
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@Suite struct SubscriptionTests {
    private func manager(_ server: DocumentServer) -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: URL(string: server.url))
        manager.completionQueue = DispatchQueue(label: "handlers")
        return manager
    }

    private func subscribe(
        _ server: DocumentServer, method: HTTPMethod = .subscribe, _ prepare: (ValueSubscription<JSON>) -> Void = { _ in }
    ) throws -> ValueSubscription<JSON> {
        let manager = manager(server)
        let subscription = try manager.makeSubscription("document", method: method, as: JSON.self)
        subscription.source.retryInterval = 0.01
        prepare(subscription)
        manager.enqueue(subscription.source)
        return subscription
    }

    private func wait(for subscription: ValueSubscription<JSON>, toBe server: DocumentServer) async throws {
        try await waitUntil("version \(server.version), not \(subscription.version)") {
            subscription.version == server.version && subscription.json == server.document
        }
    }

    // MARK: Through nginx

    /// Creates a change whose result differs if it is applied twice or not at all.
    private func randomChange(_ document: JSON, _ number: Int, _ generator: inout SplitMix64) -> JSONPatch {
        guard case .array(let list) = document[["list"]] else { return [] }
        switch Int.random(in: 0...5, using: &generator) {
        case 0 where list.count > 200:
            return [.remove(path: ["list", "0"]), .replace(path: ["count"], value: .number(JSONNumber(number)))]
        case 1 where list.count > 3: return [.move(from: ["list", "1"], path: ["list", "-"])]
        case 2: return [.copy(from: ["count"], path: ["names", "name \(number % 50)"])]
        case 3:
            return [
                .test(path: ["list", "0"], value: list[0]), .add(path: ["list", "0"], value: .number(JSONNumber(number))),
            ]
        case 4: return [.replace(path: ["count"], value: .number(JSONNumber(number)))]
        default: return [.add(path: ["list", "-"], value: ["n": .number(JSONNumber(number)), "é": "text"])]
        }
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `4,000 patches keep the document correct through 20 lost connections`() async throws {
        let server = try DocumentServer(["list": [0], "names": [:], "count": 0])
        defer { server.stop() }
        let nginx = try Nginx(forwardingTo: server.port)
        let manager = HTTPRequestOperationManager(baseURL: nginx.url("forward/"))
        let subscription = try manager.makeSubscription("document", as: JSON.self)
        subscription.source.retryInterval = 0.02
        manager.enqueue(subscription.source)
        let reader = Task {
            var (document, patches) = (JSON.null, 0)
            for try await change in subscription.changes {
                switch change {
                case .value(let value): document = value
                case .patch(let patch):
                    try patch.apply(to: &document)
                    patches += 1
                }
            }
            return (document, patches)
        }
        try await Task {
            var generator = SplitMix64.printingSeed()
            let start = ContinuousClock.now
            var (due, dropped) = (0, 0)
            // Close only a stream that was not closed before, because on a busy machine no other may exist.
            func dropStream() {
                guard server.openStreams > 0, server.streamCount > dropped else { return }
                dropped = server.streamCount
                server.dropStreams()
                due -= 1
            }
            for number in 1...4_000 {
                try server.change(randomChange(server.document, number, &generator))
                if number % 190 == 0, number <= 3_800 { due += 1 }
                if due > 0 { dropStream() }
                if number % 10 == 0 { try await Task.sleep(until: start + .milliseconds(number)) }
            }
            try await waitUntil("a stream for each loss") {
                if due > 0 { dropStream() }
                return due == 0
            }
        }.value
        try await waitUntil("version \(server.version), not \(subscription.version)") {
            subscription.version == server.version
        }
        #expect(subscription.json == server.document)
        print("streams: \(server.streamCount), fetches: \(server.fetchCount)")
        try await waitUntil("the last stream") { server.streamCount >= 21 }
        #expect(server.methods.contains("SUBSCRIBE"))
        subscription.close()
        let (document, patches) = try await reader.value
        #expect(document == server.document && patches > 2_500)
        #expect(subscription.source.error == nil)
    }

    // MARK: Kinds of servers

    @Test(arguments: 0..<8)
    func `the value stays in sync with each kind of server`(kind: Int) async throws {
        let (sendsIDs, resumes, putsDocument) = (kind & 1 == 0, kind & 2 == 0, kind & 4 != 0)
        var options = DocumentServer.Options()
        (options.sendsIDs, options.resumes, options.putsDocument) = (sendsIDs, resumes, putsDocument)
        let server = try DocumentServer(["list": [0]], options)
        defer { server.stop() }
        let subscription = try subscribe(server, method: .get) {
            $0.resumesByEventID = resumes || putsDocument
            $0.fetchesValue = !putsDocument
        }
        try await waitUntil("a value") { subscription.json == server.document }
        for round in 0..<3 {
            for number in 0..<20 {
                try server.change([.add(path: ["list", "-"], value: .number(JSONNumber(number)))])
                if number % 5 == 0 { try await wait(for: subscription, toBe: server) }
            }
            try await wait(for: subscription, toBe: server)
            let streams = server.streamCount
            server.dropStreams()
            // Changes made while no stream is open arrive with the next stream or with the value.
            try server.change([.add(path: ["list", "0"], value: .number(JSONNumber(round)))])
            try await waitUntil("another stream") { server.streamCount > streams }
            try await wait(for: subscription, toBe: server)
        }
        #expect(putsDocument == (server.fetchCount == 0))
        subscription.close()
        try await subscription.source.finished()
    }

    @Test func `a put event replaces the value`() async throws {
        let server = try DocumentServer([1])
        defer { server.stop() }
        let subscription = try subscribe(server)
        try await wait(for: subscription, toBe: server)
        let text = String(repeating: "x", count: 3 << 20)
        server.send("event: put\ndata: {\"text\":\"\(text)\"}\n\n", document: ["text": .string(text)])
        try await wait(for: subscription, toBe: server)
        try server.change([.add(path: ["more"], value: 1)])
        try await wait(for: subscription, toBe: server)
        #expect(server.fetchCount == 1)
        subscription.close()
    }

    // MARK: Failures

    @Test(arguments: [
        "event: patch\ndata: no JSON\n\n", "event: patch\ndata\n\n", "event: patch\ndata: {\"op\":\"add\"}\n\n",
        "event: patch\ndata: [{\"op\":\"remove\",\"path\":\"/nowhere\"}]\n\n",
        "event: patch\ndata: [{\"op\":\"add\",\"path\":\"/0\",\"value\":7},{\"op\":\"test\",\"path\":\"/0\",\"value\":8}]\n\n",
        "event: put\ndata: {\n\n",
    ])
    func `an event that cannot be applied causes the value to be fetched again`(event: String) async throws {
        let server = try DocumentServer([1])
        defer { server.stop() }
        let subscription = try subscribe(server)
        try await wait(for: subscription, toBe: server)
        server.send(event, document: ["another"])
        try await wait(for: subscription, toBe: server)
        try server.change([.add(path: ["-"], value: 2)])
        try await wait(for: subscription, toBe: server)
        #expect(subscription.json == ["another", 2] && server.fetchCount == 2)
        subscription.close()
    }

    @Test(arguments: [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", "410"),
        ("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n{]}", "column"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n[1]", "content-type"),
        ("HTTP/1.1 204 No Content\r\n\r\n", "no body"),
    ])
    func `a missing or invalid value ends the subscription`(answer: String, words: String) async throws {
        var options = DocumentServer.Options()
        options.answer = { number in number == 2 ? answer : nil }
        let server = try DocumentServer([1], options)
        defer { server.stop() }
        let subscription = try subscribe(server)
        let values = subscription.values
        try await wait(for: subscription, toBe: server)
        server.send("event: patch\ndata: ?\n\n")
        do {
            for try await value in values { #expect(value == [1]) }
            Issue.record("no error")
        } catch {
            #expect("\(error)".contains(words), "\(error)")
            #expect("\(error)" == subscription.source.error.map { "\($0)" })
        }
        #expect(subscription.json == [1] && subscription.source.isFinished)
    }

    @Test(arguments: [
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n[1, 2",
    ])
    func `a fetch that fails temporarily is repeated, and no change is lost`(answer: String) async throws {
        var options = DocumentServer.Options()
        options.answer = { number in number <= 2 ? answer : nil }
        let server = try DocumentServer([1], options)
        defer { server.stop() }
        let subscription = try subscribe(server)
        try await waitUntil("a fetch") { server.fetchCount > 0 }
        try server.change([.add(path: ["-"], value: 2)])
        server.dropStreams()
        try server.change([.add(path: ["-"], value: 3)])
        try await wait(for: subscription, toBe: server)
        #expect(subscription.json == [1, 2, 3] && server.fetchCount >= 3)
        subscription.close()
    }

    @Test func `an invalid request or a response without an event stream ends the subscription`() async throws {
        let server = try DocumentServer([1])
        defer { server.stop() }
        let manager = manager(server)
        let impossible = manager.subscribe("document", headers: ["a": "b\r\nc"], as: JSON.self)
        await #expect(throws: (any Error).self) { for try await _ in impossible.values {} }
        #expect(impossible.json == nil && server.streamCount == 0 && server.fetchCount == 0)
        let none = manager.subscribe("document", headers: ["Accept": "application/json"], as: JSON.self)
        await #expect(throws: EventSourceError.self) { for try await _ in none.changes {} }
        #expect(none.source.isFinished)
    }

    @Test func `a loop starts a subscription that is not enqueued`() async throws {
        let server = try DocumentServer([1])
        defer { server.stop() }
        let subscription = try manager(server).makeSubscription("document", as: JSON.self)
        for try await value in subscription.values {
            #expect(value == [1])
            break
        }
        #expect(!subscription.source.isFinished)
        subscription.close()
        try await subscription.source.finished()
    }

    // MARK: Use

    struct Document: Codable, Equatable, Sendable {
        var title: String
        var tags: [String]
    }

    @Test func `both managers decode values, and a value of the wrong type does not end the loop`() async throws {
        let server = try DocumentServer(["title": "a", "tags": []])
        defer { server.stop() }
        try await check(manager(server), server)
        let session = HTTPSessionManager(baseURL: URL(string: server.url))
        try await check(session, server)
        session.invalidate(cancellingTasks: true)
    }

    private func check(_ manager: some HTTPManager, _ server: DocumentServer) async throws {
        let subscription = manager.subscribe("document", as: Document.self)
        var values = subscription.values.makeAsyncIterator()
        let first = try #require(try await values.next())
        #expect(first.title == "a")
        try server.change([.add(path: ["tags", "-"], value: "x")])
        #expect(try await values.next()?.tags.count == first.tags.count + 1)
        try server.change([.replace(path: ["title"], value: 7)])
        await #expect(throws: DecodingError.self) { try await values.next() }
        #expect(subscription.value == nil && subscription.json?[["title"]] == 7)
        try server.change([.replace(path: ["title"], value: "a")])
        #expect(try await values.next()?.title == "a")
        subscription.close()
        #expect(try await values.next() == nil)
    }

    @Test func `the handler receives each change in order and is released at the end`() async throws {
        final class Token: Sendable {}
        let server = try DocumentServer([])
        defer { server.stop() }
        let heard = Locked<[SubscriptionChange]>([])
        var token: Token? = Token()
        weak let released = token
        var subscription: ValueSubscription? = manager(server).subscribe("document", as: JSON.self) {
            [token] subscription, change in
            withExtendedLifetime(token) {}
            heard.withLock { $0.append(change) }
            if case .array(let elements) = subscription.json, elements.count == 100 { subscription.close() }
        }
        token = nil
        try await waitUntil("a value") { !heard.withLock { $0.isEmpty } }
        for number in 0..<99 { try server.change([.add(path: ["-"], value: .number(JSONNumber(number)))]) }
        // Some of the changes may have arrived at this point.
        try await waitUntil("a change") { heard.withLock { $0.count > 1 } }
        let source = try #require(subscription?.source)
        subscription = nil
        try server.change([.add(path: ["-"], value: 99)])
        try await source.finished()
        try await waitUntil("the release of the handler") { released == nil }
        let changes = heard.withLock { $0 }
        #expect(changes.first == .value([]) && changes.count <= 101)
        for (index, change) in changes.dropFirst().enumerated() {
            #expect(change == .patch([.add(path: ["-"], value: .number(JSONNumber(index)))]))
        }
    }

    @Test func `a slow loop receives the newest value instead of the missed changes`() async throws {
        let server = try DocumentServer([])
        defer { server.stop() }
        let subscription = try subscribe(server)
        var changes = subscription.changes.makeAsyncIterator()
        #expect(try await changes.next() == .value([]))
        for number in 0..<10_500 { try server.change([.add(path: ["-"], value: .number(JSONNumber(number)))]) }
        try await wait(for: subscription, toBe: server)
        guard case .value(.array(let elements))? = try await changes.next() else { throw CocoaError(.featureUnsupported) }
        var count = elements.count
        #expect(count > 10_000)
        while count < 10_500, try await changes.next() != nil { count += 1 }
        #expect(count == 10_500)
        subscription.close()
        #expect(try await changes.next() == nil)
    }

    @Test func `a subscription waits for its dependencies and can be paused, resumed and cancelled`() async throws {
        let server = try DocumentServer([])
        defer { server.stop() }
        let manager = manager(server)
        let subscription = try manager.makeSubscription("document", as: JSON.self)
        let login = try manager.makeOperation(.get, "login")
        subscription.source.addDependency(login)
        manager.enqueue(subscription.source)
        #expect(server.fetchCount == 0 && server.streamCount == 0)
        manager.enqueue(login)
        try await wait(for: subscription, toBe: server)
        subscription.pause()
        try await waitUntil("the end of the stream") { server.openStreams == 0 }
        for number in 0..<10 { try server.change([.add(path: ["-"], value: .number(JSONNumber(number)))]) }
        #expect(subscription.json == [])
        subscription.resume()
        try await wait(for: subscription, toBe: server)
        #expect(server.fetchCount <= 3)
        let values = subscription.values
        subscription.cancel()
        await #expect(throws: URLError.self) { for try await _ in values {} }
        #expect((subscription.source.error as? URLError)?.code == .cancelled)
    }

    @Test func `a subscription closed at any moment ends`() async throws {
        let server = try DocumentServer([])
        defer { server.stop() }
        var generator = SplitMix64.printingSeed()
        for round in 0..<40 {
            var subscription: ValueSubscription<JSON>? = try subscribe(server, method: round % 2 == 0 ? .get : .subscribe)
            let source = try #require(subscription?.source)
            try await Task.sleep(for: .microseconds(.random(in: 0...5_000, using: &generator)))
            try server.change([.add(path: ["-"], value: 1)])
            if round % 3 == 0 { subscription?.cancel() } else { subscription?.close() }
            subscription = nil
            _ = try? await source.finished()
            #expect(source.isFinished)
        }
    }
}
