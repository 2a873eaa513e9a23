// Runs typical tasks of programs with Convoy once, while calls into the system or a library fail (TortureTests).
//
//     TortureProgram SCENE SERVER SECURE-SERVER AUTHORITY FOLDER
//     TortureProgram soak SERVER SECURE-SERVER AUTHORITY FOLDER COUNT
//
// Prints the number of operations that began and ended, and exits with 3 if a promise is broken: an operation that does not
// end or ends twice, a wrong file, wrong bytes, or, with the address sanitizer, leaked memory. Errors are allowed.
import ConvoyCache
import ConvoyCookies
import ConvoyDownloads
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySharedQueue
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

#if Postgres
import ConvoyPostgres
#endif

let arguments = Array(CommandLine.arguments.dropFirst())
if arguments.first == "soak", arguments.count == 6, let count = Int(arguments[5]), let server = URL(string: arguments[1]),
    let secureServer = URL(string: arguments[2])
{
    let soak = try Soak(
        server: server, secureServer: secureServer, authority: URL(fileURLWithPath: arguments[3]),
        folder: URL(fileURLWithPath: arguments[4]))
    let isRight = try await soak.run(count)
    _exit(isRight && !hasLeaked() ? 0 : 3)
}
guard arguments.count == 5, let scene = Scene(rawValue: arguments[0]), let server = URL(string: arguments[1]),
    let secureServer = URL(string: arguments[2])
else {
    print("usage: TortureProgram SCENE SERVER SECURE-SERVER AUTHORITY FOLDER")
    exit(2)
}
let run = SceneRun(
    server: server, secureServer: secureServer, authority: URL(fileURLWithPath: arguments[3]),
    folder: URL(fileURLWithPath: arguments[4]))
do {
    try await run.play(scene)
} catch {
    print("error: \(error)")
}
let broken = run.broken
print("\(run.begun) begun, \(run.ended) ended")
for text in broken { print("broken: \(text)") }
fflush(nil)
_exit(broken.isEmpty && run.begun == run.ended && !hasLeaked() ? 0 : 3)

/// Returns whether memory is unreachable, and prints where it was allocated. Always returns false without the address
/// sanitizer.
func hasLeaked() -> Bool {
    guard let symbol = dlsym(nil, "__lsan_do_recoverable_leak_check") else { return false }
    typealias Check = @convention(c) () -> Int32
    return unsafeBitCast(symbol, to: Check.self)() != 0
}

enum Scene: String, CaseIterable {
    case requests, secure, downloads, uploads, stores, queue, shared, postgres
}

/// Runs a scene and counts its operations.
final class SceneRun: Sendable {
    private struct Counts {
        var begun = 0, ended = 0
        var broken: [String] = []
    }

    private let server: URL, secureServer: URL, authority: URL, folder: URL
    private let counts = Locked(Counts())

    init(server: URL, secureServer: URL, authority: URL, folder: URL) {
        (self.server, self.secureServer, self.authority, self.folder) = (server, secureServer, authority, folder)
    }

    var begun: Int { counts.withLock { $0.begun } }
    var ended: Int { counts.withLock { $0.ended } }
    var broken: [String] { counts.withLock { $0.broken } }

    private func breaks(_ text: String) { counts.withLock { $0.broken.append(text) } }

    /// The body that the servers of the test send.
    static var pattern: Data { Data(bytes) }
    /// An array rather than `Data`, whose reference the leak check does not recognize.
    private static let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }

    func play(_ scene: Scene) async throws {
        switch scene {
        case .requests: try await requests()
        case .secure: try await secure()
        case .downloads: try await downloads()
        case .uploads: try await uploads()
        case .stores: try await stores()
        case .queue: try await queue()
        case .shared: try await shared(.sqlite(folder.appendingPathComponent("shared.sqlite")))
        case .postgres:
            #if Postgres
            let address = ProcessInfo.processInfo.environment["TORTURE_DATABASE"] ?? ""
            try await shared(.postgres(address, schema: folder.lastPathComponent.replacing("-", with: "_")))
            #else
            breaks("this program has no ConvoyPostgres")
            #endif
        }
    }

    private func makeManager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(baseURL: server, completionQueue: .global())
        manager.totalTimeout = 2
        var policy = RetryPolicy(maximumRetryCount: 1)
        policy.initialDelay = 0.01
        manager.retryPolicy = policy
        return manager
    }

    /// Enqueues operations and waits for their ends. Received bodies must equal `body`.
    private func carryOut(
        _ operations: [HTTPRequestOperation], by manager: HTTPRequestOperationManager, expecting body: Data? = nil
    ) async {
        for operation in operations {
            let ends = Locked(0)
            counts.withLock { $0.begun += 1 }
            let end: @Sendable () -> Void = { [self] in
                let count = ends.withLock { count in
                    count += 1
                    return count
                }
                if count > 1 { breaks("an operation has ended \(count) times") }
                counts.withLock { $0.ended += 1 }
            }
            operation.setCompletionHandler(success: { _, _ in end() }, failure: { _, _ in end() })
        }
        manager.enqueue(operations)
        for operation in operations {
            try? await operation.finished()
            guard operation.error == nil, let body, !(operation is DownloadOperation) else { continue }
            if operation.responseData != body { breaks("\(operation.responseData?.count ?? -1) wrong bytes") }
        }
    }

    private func requests() async throws {
        let manager = makeManager()
        let json = try manager.makeOperation(.get, "json")
        let post = try manager.makeOperation(.post, "echo", parameters: ["a": "b"])
        post.addDependency(json)
        let others = try ["moved", "nowhere", "broken", "busy"].map { try manager.makeOperation(.get, $0) }
        await carryOut([json, post] + others, by: manager)
        for path in ["gzip", "pattern"] {
            let operation = try manager.makeOperation(.get, path)
            operation.responseSerializer = HTTPResponseSerializer()
            await carryOut([operation], by: manager, expecting: Self.pattern)
        }
        let paused = try manager.makeOperation(.get, "pattern")
        paused.responseSerializer = HTTPResponseSerializer()
        paused.downloadProgressHandler = { [weak paused] _, _, _ in
            paused?.downloadProgressHandler = nil
            paused?.pause()
            paused?.resume()
        }
        await carryOut([paused], by: manager, expecting: Self.pattern)
    }

    private func secure() async throws {
        let manager = makeManager()
        var policy = SecurityPolicy()
        policy.certificateAuthorities = .file(authority)
        manager.securityPolicy = policy
        let operations = try (0..<3).map { _ in
            let operation = try manager.makeOperation(.get, secureServer.appendingPathComponent("pattern").absoluteString)
            operation.responseSerializer = HTTPResponseSerializer()
            return operation
        }
        await carryOut(operations, by: manager, expecting: Self.pattern)
        // The server must not be trusted without its certificate, even if a call fails.
        let untrusting = makeManager()
        let refused = try untrusting.makeOperation(.get, secureServer.appendingPathComponent("pattern").absoluteString)
        refused.responseSerializer = HTTPResponseSerializer()
        await carryOut([refused], by: untrusting)
        if refused.error == nil { breaks("a server is trusted that is not known") }
    }

    private func downloads() async throws {
        let manager = makeManager()
        for count in [1, 3] {
            let file = folder.appendingPathComponent("download-\(count)")
            let download = DownloadOperation(
                request: URLRequest(url: server.appendingPathComponent("pattern")), destination: file)
            download.completionQueue = .global()
            download.totalTimeout = 5
            download.segmentCount = count
            download.minimumSegmentLength = 20_000
            await carryOut([download], by: manager)
            // The test sets this variable for calls whose failure must be detected immediately.
            if ProcessInfo.processInfo.environment["TORTURE_PROMPT"] != nil, (download.error as? URLError)?.code == .timedOut
            {
                breaks("a download has waited for its time limit")
            }
            let bytes = try? Data(contentsOf: file)
            if let bytes, bytes != Self.pattern { breaks("a wrong file of \(bytes.count) bytes") }
            if download.error == nil, bytes == nil { breaks("a download has succeeded without a file") }
        }
    }

    private func uploads() async throws {
        let manager = makeManager()
        let file = folder.appendingPathComponent("upload")
        try Self.pattern.write(to: file)
        // The second upload resumes the state that a failure left behind.
        for _ in 0..<2 {
            let upload = UploadOperation(request: URLRequest(url: server.appendingPathComponent("uploads")), file: file)
            (upload.uploadProtocol, upload.chunkSize, upload.resumption) = (.tus, .fixed(60_000), .resumeOrRestart)
            (upload.completionQueue, upload.totalTimeout) = (.global(), 5)
            await carryOut([upload], by: manager)
            guard upload.error == nil else { continue }
            if upload.uploadProgress.bytesConfirmed != Int64(Self.pattern.count) {
                breaks("an upload that is not confirmed")
            }
            let stored = try manager.makeOperation(.get, "uploads/1")
            stored.responseSerializer = HTTPResponseSerializer()
            await carryOut([stored], by: manager, expecting: Self.pattern)
        }
    }

    private func stores() async throws {
        let manager = makeManager()
        let cookies = try CookieStore(file: folder.appendingPathComponent("cookies"))
        manager.cookieStore = cookies
        manager.cache = try HTTPCache(
            directory: folder.appendingPathComponent("cache"), diskCapacity: 16 << 20, memoryCapacity: 1 << 16)
        for _ in 0..<3 {
            let operations = try (0..<3).map { number in
                let operation = try manager.makeOperation(.get, "cached/\(number)")
                operation.responseSerializer = HTTPResponseSerializer()
                return operation
            }
            await carryOut(operations, by: manager, expecting: Self.pattern)
        }
        try? cookies.flush()
        try? manager.cache?.flush()
        // The stored contents are read back unchanged.
        let again = makeManager()
        again.cache = try HTTPCache(
            directory: folder.appendingPathComponent("cache"), diskCapacity: 16 << 20, memoryCapacity: 0)
        let operation = try again.makeOperation(.get, "cached/0")
        operation.responseSerializer = HTTPResponseSerializer()
        await carryOut([operation], by: again, expecting: Self.pattern)
        _ = try CookieStore(file: folder.appendingPathComponent("cookies"))
    }

    private func queue() async throws {
        let directory = folder.appendingPathComponent("queue")
        var enqueued: [UUID] = []
        do {
            let queue = try DownloadQueue(directory: directory, manager: makeManager())
            queue.start()
            for number in 0..<2 {
                let file = folder.appendingPathComponent("queued-\(number)")
                let request = DownloadRequest(server.appendingPathComponent("pattern"), destination: file)
                do { try await queue.enqueue(request) } catch { continue }
                enqueued.append(request.id)
            }
            try? await queue.waitUntilAllFinished()
            await queue.close()
        }
        // No accepted entry is lost.
        let queue = try DownloadQueue(directory: directory, manager: makeManager())
        let known = Set(queue.entries.map(\.id))
        for id in enqueued where !known.contains(id) { breaks("an entry is lost") }
        for entry in queue.entries where entry.state == .finished {
            let bytes = (0..<2).compactMap { try? Data(contentsOf: folder.appendingPathComponent("queued-\($0)")) }
            if !bytes.contains(Self.pattern) { breaks("an entry has finished without its file") }
        }
        await queue.close()
    }

    private func shared(_ store: SharedQueueStore) async throws {
        let queue = SharedQueue(store: store)
        var enqueued = 0
        for number in 0..<3 {
            var request = URLRequest(url: server.appendingPathComponent("echo"))
            (request.httpMethod, request.httpBody) = ("POST", Data("\(number)".utf8))
            do {
                try await queue.enqueue(SharedRequest(request))
            } catch SharedQueueError.unavailable {
                // The call has already waited for the unavailable database, so its entries are unknown.
                return
            } catch {
                continue
            }
            enqueued += 1
        }
        var settings = SharedQueueWorker.Settings()
        settings.maximumConcurrentJobs = 2
        let worker = SharedQueueWorker(queue: queue, manager: makeManager(), settings: settings)
        let running = Task { try? await worker.run() }
        for _ in 0..<250 where worker.statistics.succeeded + worker.statistics.failed < enqueued {
            try await Task.sleep(for: .milliseconds(10))
        }
        worker.stop()
        // The worker cannot report its results to an unavailable database, so stop it after a while.
        let end = Task {
            try await Task.sleep(for: .seconds(3))
            worker.stop(.now)
        }
        await running.value
        end.cancel()
        let found = try await SharedQueue(store: store).counts().values.reduce(0, +)
        if found < enqueued { breaks("\(enqueued - found) entries are lost") }
    }
}
