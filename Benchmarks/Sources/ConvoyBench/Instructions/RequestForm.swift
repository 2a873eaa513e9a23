import CLimit
import Convoy
import Foundation
import FoundationNetworking
import Synchronization

/// A way to write a request, whose instructions are counted for sequential requests on a keep-alive connection.
struct RequestForm: Sendable {
    let name: String
    /// A description in one line.
    let summary: String
    /// Makes a number of requests sequentially.
    let run: @Sendable (Context, Int) throws -> Void

    static let all: [RequestForm] = [
        limit, limitWithFields,
        byHandler("get", #"get("small") with handlers"#) { $0.get("small", success: $1.success, failure: $1.failure) },
        byHandler("query", "with a query in its text") {
            $0.get("small?page=2&sort=name", success: $1.success, failure: $1.failure)
        },
        RequestForm(name: "absolute", summary: "with an absolute URL") { context, count in
            let url = context.url.absoluteString + "/small"
            try byHandler(context, count) { $0.get(url, success: $1.success, failure: $1.failure) }
        },
        byHandler("headers", "with two header fields") {
            $0.get(
                "small", headers: ["X-Request-ID": "1234", "Accept-Language": "en"], success: $1.success,
                failure: $1.failure)
        },
        byHandler("parameters", "with two parameters") {
            $0.get("small", parameters: ["page": 2, "sort": "name"], success: $1.success, failure: $1.failure)
        },
        awaited("data", "awaited as Data") { manager in
            let data: Data = try await manager.get("small")
            return data.count == 11
        },
        awaited("typed", "awaited as a Decodable of 1 KB of JSON") { manager in
            let document: JSONDocument = try await manager.get("json")
            return !document.users.isEmpty
        },
        byHandler("post", "a POST of a small Encodable as JSON") {
            $0.post("small", body: ["name": "ada", "role": "admin"], success: $1.success, failure: $1.failure)
        },
        task,
        byHandler("monitor", "a GET with an event monitor") {
            manager, _ in
            manager.eventMonitors = [EventMonitor { _ in }]
        } call: {
            $0.get("small", success: $1.success, failure: $1.failure)
        },
        byHandler("cookies", "a GET that sends two cookies") {
            let store = CookieStore()
            store.setCookies(["session=0123456789; Max-Age=1000", "theme=dark; Max-Age=1000"], from: $1.url)
            $0.cookieStore = store
        } call: {
            $0.get("small", success: $1.success, failure: $1.failure)
        },
        byHandler("cache", "a GET with a cache that has no response for it") { manager, _ in
            manager.cache = HTTPCache()
        } call: {
            $0.get("small", success: $1.success, failure: $1.failure)
        },
        download,
    ]

    /// The C loop, with which all others are compared.
    private static let limit = RequestForm(name: Trial.cLoop, summary: "the C loop") { context, count in
        _ = try LimitLoop.run(
            RequestPlan(path: "small", fullCount: count, inFlight: 1, expectedBytes: 11), context, limit_requests)
    }

    /// The C loop with the header fields of Convoy's requests, which libcurl writes byte by byte.
    private static let limitWithFields = RequestForm(
        name: "limit-fields", summary: "the C loop with Convoy's header fields"
    ) { context, count in
        let plan = RequestPlan(path: "small", fullCount: count, inFlight: 1, expectedBytes: 11)
        _ = try LimitLoop.run(plan.withFieldsOfConvoy(), context, limit_requests)
    }

    private static let task = RequestForm(name: "task", summary: "a data task of a session") { context, count in
        let manager = HTTPSessionManager(baseURL: context.url)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "bench.completion")
        try oneAfterAnother(count) { done in
            manager.get("small") { _, object in
                done((object as? Data)?.count == 11)
            } failure: { _, _ in
                done(false)
            }
        }
    }

    private static let download = RequestForm(
        name: "download", summary: "a DownloadOperation of a new file of 8 KiB"
    ) { context, count in
        let directory = context.scratch.appendingPathComponent("downloads")
        try? FileManager.default.removeItem(at: directory)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let queue = RequestOperationQueue()
        let completion = DispatchQueue(label: "bench.completion")
        // Create the list beforehand, for both numbers of requests.
        let places = (0..<1_000).map {
            (url: context.url.appendingPathComponent("many/\($0)"), file: directory.appendingPathComponent("\($0)"))
        }
        let next = Atomic<Int>(0)
        try oneAfterAnother(count) { done in
            let place = places[next.wrappingAdd(1, ordering: .relaxed).oldValue]
            let operation = DownloadOperation(request: URLRequest(url: place.url), destination: place.file)
            operation.completionQueue = completion
            operation.setCompletionHandler { _, _ in
                done(true)
            } failure: { _, _ in
                done(false)
            }
            queue.addOperation(operation)
        }
    }

    // MARK: With handlers

    /// The handlers of one request.
    private struct Handlers {
        let success: HTTPRequestOperationManager.Success
        let failure: HTTPRequestOperationManager.Failure

        init(_ done: @escaping @Sendable (Bool) -> Void) {
            success = { _, object in done((object as? Data)?.count == 11) }
            failure = { _, _ in done(false) }
        }
    }

    private static func byHandler(
        _ name: String, _ summary: String,
        prepare: @escaping @Sendable (HTTPRequestOperationManager, Context) throws -> Void = { _, _ in },
        call: @escaping @Sendable (HTTPRequestOperationManager, Handlers) -> HTTPRequestOperation
    ) -> RequestForm {
        RequestForm(name: name, summary: summary) { try byHandler($0, $1, prepare: prepare, call: call) }
    }

    private static func byHandler(
        _ context: Context, _ count: Int,
        prepare: (HTTPRequestOperationManager, Context) throws -> Void = { _, _ in },
        call: @escaping @Sendable (HTTPRequestOperationManager, Handlers) -> HTTPRequestOperation
    ) throws {
        let manager = HTTPRequestOperationManager(baseURL: context.url)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.completionQueue = DispatchQueue(label: "bench.completion")
        try prepare(manager, context)
        try oneAfterAnother(count) { _ = call(manager, Handlers($0)) }
    }

    /// Makes each request in the handler of the previous one.
    private static func oneAfterAnother(
        _ count: Int, _ start: @escaping @Sendable (@escaping @Sendable (Bool) -> Void) -> Void
    ) throws {
        let countdown = Countdown(count)
        @Sendable func next(_ left: Int) {
            guard left > 0 else { return }
            start { isRight in
                next(left - 1)
                countdown.done(isRight)
            }
        }
        next(count)
        try BenchError.check(failed: countdown.wait(), of: count)
    }

    // MARK: Awaited

    private static func awaited(
        _ name: String, _ summary: String,
        _ get: @escaping @Sendable (HTTPRequestOperationManager) async throws -> Bool
    ) -> RequestForm {
        RequestForm(name: name, summary: summary) { context, count in
            let manager = HTTPRequestOperationManager(baseURL: context.url)
            try blocking {
                for _ in 0..<count where !(try await get(manager)) { throw BenchError("wrong body") }
            }
        }
    }
}
