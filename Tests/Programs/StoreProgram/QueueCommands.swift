import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking

/// A program with a queue that may be killed at any time and continues when it is restarted.
enum QueueCommands {
    struct Usage: Error {}

    /// Writes a line without buffering, so that nothing is lost when the process is killed.
    private static func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

    static func run(_ arguments: [String]) async throws {
        guard arguments.count >= 2 else { throw Usage() }
        let home = URL(fileURLWithPath: arguments[0])
        switch (arguments[1], arguments.count) {
        case ("hold", 2):
            let queue = try open(home)
            say("open")
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            withExtendedLifetime(queue) {}
        case ("work", 4):
            guard let server = URL(string: arguments[2]), let count = Int(arguments[3]) else { throw Usage() }
            try await work(home, server, count)
        case ("get", 5):
            guard let url = URL(string: arguments[2]), let count = Int(arguments[3]), let jobs = Int(arguments[4]) else {
                throw Usage()
            }
            try await SharedCommands.getLocally(home, url, count, jobs)
        case ("full", 2): try await full(home)
        default: throw Usage()
        }
    }

    private static func open(_ home: URL, configure: @escaping DownloadQueue.Configure = { _, _ in }) throws -> DownloadQueue
    {
        try DownloadQueue(
            directory: home, manager: HTTPRequestOperationManager(completionQueue: .global()), configure: configure)
    }

    /// Enqueues requests up to the given number, and runs all of them. Even requests are downloads, and each odd
    /// request depends on the previous odd one.
    private static func work(_ home: URL, _ server: URL, _ count: Int) async throws {
        let queue = try open(home) { operation, entry in
            let tag = entry.tag ?? ""
            operation.prepare = { _ in say("begun \(tag)") }
            operation.setCompletionHandler(
                success: { _, _ in say("finished \(tag)") }, failure: { _, error in say("failed \(tag) \(error)") })
        }
        let found = queue.entries
        say("found \(found.count)")
        for entry in found where entry.state == .finished { say("kept \(entry.tag ?? "")") }
        queue.start()
        var last = found.last { $0.kind == .outbox }?.id
        for number in found.count..<max(found.count, count) {
            if number % 2 == 0 {
                var request = DownloadRequest(
                    server.appendingPathComponent("file/\(number)"), destination: home.appendingPathComponent("../\(number)")
                )
                request.tag = "\(number)"
                try await queue.enqueue(request)
            } else {
                var post = URLRequest(url: server.appendingPathComponent("post"))
                post.httpMethod = "POST"
                var request = OutboxRequest(post, body: .data(Data("\(number)".utf8)))
                request.tag = "\(number)"
                request.dependencies = last.map { [$0] } ?? []
                last = request.id
                try await queue.enqueue(request)
            }
            say("enqueued \(number)")
        }
        try await queue.waitUntilAllFinished()
        let states = Set(queue.entries.map(\.state.rawValue)).sorted().joined(separator: " ")
        say("done \(queue.entries.count) \(states)")
        await queue.close()
    }

    /// Simulates a full disk for this process by limiting the size of its files.
    private static func full(_ home: URL) async throws {
        var before = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
        signal(SIGXFSZ, SIG_IGN)
        let queue = try open(home)
        func request(_ text: String) -> OutboxRequest {
            var post = URLRequest(url: URL(fileURLWithPath: "/"))
            post.url = URL(string: "http://127.0.0.1:9/")
            post.httpMethod = "POST"
            return OutboxRequest(post, body: .data(Data(text.utf8)))
        }
        try await queue.enqueue(request("first"))
        for size in [rlim_t(1), 20_000, 40_000] {
            var small = rlimit(rlim_cur: size, rlim_max: before.rlim_max)
            setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &small)
            var (enqueued, errors) = (0, Set<String>())
            for _ in 0..<30 {
                do throws(DownloadQueueError) {
                    try await queue.enqueue(request(String(repeating: "x", count: 2000)))
                    enqueued += 1
                } catch {
                    if case .diskFull = error { errors.insert("full") } else { errors.insert("\(error)") }
                }
            }
            queue.pause()
            queue.resume()
            queue.pause()
            let entries = queue.entries
            say("\(entries.count) \(errors.sorted().joined(separator: ", "))")
            try? await queue.flush()
        }
        // A request whose start cannot be stored does not begin.
        var none = rlimit(rlim_cur: 1, rlim_max: before.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &none)
        queue.start()
        queue.resume()
        try await queue.waitUntilAllFinished()
        queue.pause()
        let failures = queue.entries.filter { $0.state == .failed && $0.errorDescription?.contains("disk is full") == true }
        say("\(failures.count) not begun")
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
        for entry in queue.entries { try queue.retry(entry.id) }
        try await queue.enqueue(request("last"))
        try await queue.flush()
        say("\(queue.entries.count) \(queue.failure.map { "\($0)" } ?? "written")")
        await queue.close()
    }
}
