import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// The times and the number of handler calls with both managers.
@Suite struct HandlerBehaviourTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.echo(at: "/echo")
        server.route("/data", .pattern(count: 1_000_000))
        server.route("/missing", .json(text: "{}", status: 404))
        server.route("/silent", .text("x").failing(.stallBeforeHead))
        server.route("/stalls", .pattern(count: 1 << 20).stalls(afterBytes: 4096))
    }

    private struct Refusal: Error {}

    /// Collects texts in the order in which they arrive.
    private final class Notes: Sendable {
        private let texts = Locked<[String]>([])
        func add(_ text: String) { texts.withLock { $0.append(text) } }
        var all: [String] { texts.withLock { $0 } }
    }

    @Test(arguments: ManagerKind.allCases)
    func `handlers receive the request that the verb returned`(kind: ManagerKind) async throws {
        func check<Manager: HTTPManager>(_ api: Manager) async {
            let given = Locked<[ObjectIdentifier]>([])
            let note: @Sendable (Manager.Request) -> Void = { request in
                given.withLock { $0.append(ObjectIdentifier(request)) }
            }
            let requests = [
                api.get("echo", success: { request, _ in note(request) }),
                api.post("missing", success: nil, failure: { request, _ in note(request) }),
                api.head("echo", success: note),
                api.head("missing", success: nil, failure: { request, _ in note(request) }),
                api.put("http://[bad", success: nil, failure: { request, _ in note(request) }),
            ]
            for request in requests { await request.operation.end() }
            #expect(Set(given.withLock { $0 }) == Set(requests.map { ObjectIdentifier($0) }))
            #expect(given.withLock { $0.count } == 5)
        }
        await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a request without handlers, or with one, also ends`(kind: ManagerKind) async throws {
        func check(_ api: some HTTPManager) async {
            let notes = Notes()
            #expect(await api.get("echo", success: nil).operation.end() == nil)
            #expect(await api.get("missing", success: { _, _ in notes.add("success") }).operation.end() is HTTPError)
            #expect(await api.get("echo", success: nil, failure: { _, _ in notes.add("failure") }).operation.end() == nil)
            #expect(notes.all.isEmpty)
        }
        await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `handlers on a serial queue run in the order in which requests end`(kind: ManagerKind) async throws {
        func check(_ api: some HTTPManager) async throws {
            api.operationManager.maxConcurrentOperationCount = 1
            let notes = Notes()
            let requests = (0..<200).map { number in
                let path = ["echo", "missing", "http://[bad"][number % 3]
                return api.get(
                    path, success: { _, _ in notes.add("\(number)") }, failure: { _, _ in notes.add("\(number)") })
            }
            for request in requests { await request.operation.end() }
            // Requests that cannot be sent end in order as well.
            #expect(notes.all == (0..<200).map(String.init))
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `handlers run on the completion queue, which can be changed`(kind: ManagerKind) async throws {
        func check(_ api: some HTTPManager) async throws {
            let key = DispatchSpecificKey<String>()
            let places = Notes()
            for name in ["one", "two"] {
                let queue = DispatchQueue(label: name)
                queue.setSpecific(key: key, value: name)
                api.completionQueue = queue
                let note: @Sendable () -> Void = { places.add(DispatchQueue.getSpecific(key: key) ?? "elsewhere") }
                await api.get("echo", success: { _, _ in note() }).operation.end()
                await api.get("missing", success: nil, failure: { _, _ in note() }).operation.end()
                await api.get("http://[bad", success: nil, failure: { _, _ in note() }).operation.end()
            }
            #expect(places.all == ["one", "one", "one", "two", "two", "two"])
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `handlers run on the main queue without a completion queue`(kind: ManagerKind) async throws {
        let key = DispatchSpecificKey<String>()
        DispatchQueue.main.setSpecific(key: key, value: "main")
        defer { DispatchQueue.main.setSpecific(key: key, value: nil) }
        func check(_ api: some HTTPManager) async {
            let notes = Notes()
            let note: @Sendable () -> Void = { notes.add(DispatchQueue.getSpecific(key: key) ?? "elsewhere") }
            await api.get("echo", success: { _, _ in note() }).operation.end()
            await api.get("missing", success: nil, failure: { _, _ in note() }).operation.end()
            #expect(notes.all == ["main", "main"])
        }
        await check(kind.make(server.url, completionQueue: nil))
    }

    @Test(arguments: ManagerKind.allCases)
    func `the completion group is balanced for every outcome of a request`(kind: ManagerKind) async throws {
        let group = DispatchGroup()
        func check(_ api: some HTTPManager) async throws {
            api.completionGroup = group
            api.operationManager.operationQueue.isSuspended = true
            let notes = Notes()
            func start(_ path: String) -> HTTPRequestOperation {
                api.get(path, success: { _, _ in notes.add(path) }, failure: { _, _ in notes.add(path) }).operation
            }
            var operations = ["echo", "missing", "http://[bad", "silent"].map(start)
            let made = try api.makeOperation(.get, "echo")
            operations += [api.enqueue(made)]
            #expect(group.wait(timeout: .now()) == .timedOut)
            api.operationManager.operationQueue.isSuspended = false
            try await waitUntil("the request") { server.requests("/silent").count == 1 }
            #expect(group.wait(timeout: .now()) == .timedOut)
            operations[3].cancel()
            let isEmpty = await Task.detached { group.wait(timeout: .now() + 100) == .success }.value
            #expect(isEmpty && notes.all.count == 4 && operations.allSatisfy(\.isFinished))
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases, ["silent", "stalls", "queued"])
    func `a cancelled request calls failure once, and never success`(kind: ManagerKind, path: String) async throws {
        func check(_ api: some HTTPManager) async throws {
            api.operationManager.operationQueue.isSuspended = path == "queued"
            let notes = Notes()
            let request = api.get(
                path, success: { _, _ in notes.add("success") },
                failure: { _, error in notes.add("failure \((error as? URLError)?.code.rawValue ?? 0)") })
            if path == "silent" { try await server.waitForRequests(count: 1, timeout: 100) }
            if path == "stalls" {
                try await waitUntil("the first bytes") { request.operation.transferProgress.bytesReceived > 0 }
            }
            request.operation.cancel()
            #expect((await request.operation.end() as? URLError)?.code == .cancelled)
            request.operation.cancel()
            api.completionQueue?.sync {}
            #expect(notes.all == ["failure -999"] && request.operation.responseData == nil)
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `progress is reported up to the last byte, in both directions`(kind: ManagerKind) async throws {
        func check(_ api: some HTTPManager) async throws {
            api.responseSerializer = HTTPResponseSerializer()
            let received = Locked<[Int64]>([])
            let sent = Locked<[Int64]>([])
            let down: TransferProgress.Handler = { progress in received.withLock { $0.append(progress.bytesReceived) } }
            let up: TransferProgress.Handler = { progress in sent.withLock { $0.append(progress.bytesSent) } }
            let body = Data(count: 300_000)
            await api.get("data", progress: down, success: { _, _ in }).operation.end()
            await api.put("echo", body: body, progress: up, success: { _, _ in }).operation.end()
            try await waitUntil("the last bytes") {
                received.withLock { $0.last } == 1_000_000 && sent.withLock { $0.last } == 300_000
            }
            #expect(received.withLock { $0 == $0.sorted() } && sent.withLock { $0 == $0.sorted() })
            received.withLock { $0 = [] }
            try await api.get("data", progress: .to(down))
            try await waitUntil("the last byte") { received.withLock { $0.last } == 1_000_000 }
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `multipart forms, uploads and downloads have handlers`(kind: ManagerKind) async throws {
        let directory = try TemporaryDirectory()
        func check(_ api: some HTTPManager) async throws {
            let notes = Notes()
            let success: @Sendable (String) -> @Sendable (Any, Any?) -> Void = { name in { _, _ in notes.add(name) } }
            let form = api.post(
                "echo", parameters: ["title": "Dawn"],
                constructingBody: { $0.appendPart(formData: Data("1".utf8), name: "one") },
                success: { success("form")($0, $1) })
            await form.operation.end()
            #expect(server.requests.last?.text.contains("Dawn") == true)
            let refused = api.post(
                "echo", constructingBody: { _ in throw Refusal() }, success: nil,
                failure: { _, error in notes.add("\(error)") })
            #expect(await refused.operation.end() is Refusal)
            let file = directory.url.appendingPathComponent("file")
            await api.download("data", to: file, success: { success("file")($0, $1) }).operation.end()
            #expect(try Data(contentsOf: file) == PatternBytes.data(count: 1_000_000))
            let elsewhere = api.download(
                "data", to: try #require(URL(string: "http://x/y")), success: nil,
                failure: { _, error in notes.add("\((error as? URLError)?.code == .badURL)") })
            await elsewhere.operation.end()
            #expect(notes.all == ["form", "Refusal()", "file", "true"])
        }
        try await check(kind.make(server.url))
    }

    @Test(arguments: ManagerKind.allCases)
    func `a request is released after its handlers have run`(kind: ManagerKind) async throws {
        final class Witness: Sendable {}
        func check(_ api: some HTTPManager) async throws {
            weak var witness: Witness?
            weak var operation: HTTPRequestOperation?
            do {
                let object = Witness()
                witness = object
                let request = api.get(
                    "echo", success: { _, _ in withExtendedLifetime(object) {} },
                    failure: { _, _ in withExtendedLifetime(object) {} })
                operation = request.operation
                await request.operation.end()
            }
            try await waitUntil("all to be released") { witness == nil && operation == nil }
        }
        try await check(kind.make(server.url))
    }
}
