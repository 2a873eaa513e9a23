import CLimit
import Convoy
import Foundation
import FoundationNetworking
import Synchronization

/// The transfer that runs during the small requests of the case `beside`.
enum LargeTransfer: String, CaseIterable, Sendable {
    case nothing, download, upload, http2, segments
    /// A body that decoding expands a thousandfold.
    case decoded
    /// A cached response, from memory.
    case stored
    case events

    /// Whether external programs can perform the same transfer.
    var hasProgram: Bool {
        switch self {
        case .nothing, .decoded, .stored, .events: false
        case .download, .upload, .http2, .segments: true
        }
    }

    /// Returns the size of the transferred or cached body; nil for others.
    func size(_ context: Context) -> Int? {
        switch self {
        case .nothing, .events: nil
        case .decoded: BenchServer.expandedSize
        case .stored: Self.storedSize
        case .download, .upload, .http2, .segments:
            (try? FileManager.default.attributesOfItem(atPath: context.largeFile.path)[.size]) as? Int
        }
    }

    private static let storedSize = 64 << 20

    /// Creates an operation for the transfer. The argument is the URL of its file.
    typealias Maker = @Sendable (URL) throws -> HTTPRequestOperation

    /// Returns a function that creates an operation for the transfer; nil if the transfer is `nothing`.
    func operation(_ manager: HTTPRequestOperationManager, _ context: Context) throws -> Maker? {
        switch self {
        case .nothing: return nil
        case .download: return { try Self.download(context.url.appendingPathComponent("large"), to: $0, manager) }
        case .http2: return { try Self.download(context.secureURL.appendingPathComponent("large"), to: $0, manager) }
        case .decoded:
            return { target in
                let operation = try Self.download(context.url.appendingPathComponent("expanding"), to: target, manager)
                operation.connectionConfiguration.maximumExpansion = nil
                return operation
            }
        case .segments:
            return { target in
                let operation = try manager.makeDownload("large", to: target)
                operation.segmentCount = 4
                return operation
            }
        case .upload:
            let size = size(context)
            return { _ in
                var request = URLRequest(url: context.sinkURL)
                request.httpMethod = "PUT"
                request.httpBodyStream = InputStream(url: context.largeFile)
                request.setValue(size.map(String.init), forHTTPHeaderField: "Content-Length")
                return manager.makeOperation(request: request)
            }
        case .stored:
            let cache = HTTPCache(memoryCapacity: 4 * Self.storedSize)
            let url = context.url.appendingPathComponent("stored")
            try blocking { try await Self.store(url, in: cache) }
            return { target in
                let operation = try Self.download(url, to: target, manager)
                operation.cache = cache
                return operation
            }
        case .events:
            return { _ in EventSource(url: context.eventsURL.appendingPathComponent("stored/100000000")) }
        }
    }

    private static func download(
        _ url: URL, to target: URL, _ manager: HTTPRequestOperationManager
    ) throws -> HTTPRequestOperation {
        let operation = try manager.makeOperation(.get, url)
        operation.outputStream = FileOutputStream(fileURL: target)
        return operation
    }

    private static func store(_ url: URL, in cache: HTTPCache) async throws {
        let fields = ["Content-Length": "\(storedSize)", "Cache-Control": "max-age=86400"]
        guard
            let response = HTTPURLResponse(url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: fields),
            await cache.store(
                CachedURLResponse(response: response, data: Data(count: storedSize)), for: URLRequest(url: url))
        else { throw BenchError("the large response was not stored") }
    }

    /// Returns the arguments with which curl performs the same transfer, one list per process.
    func curl(_ context: Context) -> [[String]] {
        let url = context.url.appendingPathComponent("large").absoluteString
        let target = context.scratch.appendingPathComponent("target").path
        switch self {
        case .nothing, .decoded, .stored, .events: return []
        case .download: return [["-o", target, url]]
        case .upload: return [["-T", context.largeFile.path, context.sinkURL.absoluteString]]
        case .http2:
            let secure = context.secureURL.appendingPathComponent("large").absoluteString
            return [["--cacert", context.certificateAuthority.path, "-o", target, secure]]
        case .segments:
            guard let size = size(context) else { return [] }
            return (0..<4).map { number in
                ["-r", "\(size / 4 * number)-\(size / 4 * (number + 1) - 1)", "-o", "\(target)-\(number)", url]
            }
        }
    }
}

/// Repeats a transfer until it is stopped.
final class RepeatedTransfer: Sendable {
    private struct State {
        var isStopped = false
        var current: HTTPRequestOperation?
        var failure: String?
        var finished = 0
        var start: UInt64 = 0
        var end: UInt64 = 0
    }

    private let manager: HTTPRequestOperationManager
    private let make: LargeTransfer.Maker
    private let directory: URL
    private let state = Mutex(State())
    private let ended = DispatchSemaphore(value: 0)

    /// - Parameter directory: Created for the files, and removed at the end.
    init(_ manager: HTTPRequestOperationManager, in directory: URL, _ make: @escaping LargeTransfer.Maker) {
        (self.manager, self.directory, self.make) = (manager, directory, make)
    }

    func start() throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        state.withLock {
            $0.start = limit_nanoseconds()
            $0.end = $0.start
        }
        try next(0)
    }

    private func next(_ number: Int) throws {
        // Removing a large file takes long. Doing it here does not delay anything that is measured.
        if number > 0 {
            let previous = directory.appendingPathComponent("\(number - 1)")
            DispatchQueue.global().async { try? FileManager.default.removeItem(at: previous) }
        }
        let operation = try make(directory.appendingPathComponent("\(number)"))
        operation.completionQueue = manager.completionQueue
        operation.setCompletionHandler { [self] _, _ in
            end(nil)
        } failure: { [self] _, error in
            end("\(error)")
        }
        state.withLock { $0.current = operation }
        manager.enqueue(operation)
    }

    private func end(_ failure: String?) {
        let next: Int? = state.withLock { state in
            guard !state.isStopped else { return nil }
            if failure == nil {
                state.finished += 1
                state.end = limit_nanoseconds()
            }
            state.failure = failure
            return failure == nil ? state.finished : nil
        }
        guard let next else { return _ = ended.signal() }
        do {
            try self.next(next)
        } catch {
            end("\(error)")
        }
    }

    /// Stops the transfer. Returns how many times it completed, and how long that took.
    ///
    /// - Throws: An error if a transfer has failed.
    func stop() throws -> (count: Int, seconds: Double) {
        let operation = state.withLock { state in
            state.isStopped = true
            return state.current
        }
        operation?.cancel()
        ended.wait()
        try? FileManager.default.removeItem(at: directory)
        return try state.withLock { state in
            if let failure = state.failure { throw BenchError("the large transfer failed: \(failure)") }
            return (state.finished, Double(state.end - state.start) / 1e9)
        }
    }
}
