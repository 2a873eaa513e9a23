import ConvoyDownloads
import ConvoyOperations
import ConvoySharedQueue
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// A server, a directory for a queue and its files, and the view of the next process.
final class QueueFixture: Sendable {
    let server: TestServer
    let directory: TemporaryDirectory
    let manager: HTTPRequestOperationManager

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        manager = HTTPRequestOperationManager(completionQueue: .global())
    }

    deinit { server.stop() }

    var home: URL { directory.url.appendingPathComponent("queue") }
    func file(_ name: String) -> URL { directory.url.appendingPathComponent(name) }
    func contents(_ name: String) -> Data? { try? Data(contentsOf: file(name)) }

    func open(
        _ home: URL? = nil, operationQueue: OperationQueue? = nil, retryPolicy: RetryPolicy? = nil,
        configure: @escaping DownloadQueue.Configure = { _, _ in }
    ) throws -> DownloadQueue {
        try DownloadQueue(
            directory: home ?? self.home, manager: manager, operationQueue: operationQueue,
            retryPolicy: retryPolicy, configure: configure)
    }

    /// Opens a copy of the queue as the next process would find it if this one were killed now.
    func openAsAfterKill(
        _ name: String = "copy", retryPolicy: RetryPolicy? = nil,
        configure: @escaping DownloadQueue.Configure = { _, _ in }
    ) throws
        -> DownloadQueue
    {
        let copy = directory.url.appendingPathComponent(name)
        try FileManager.default.copyItem(at: home, to: copy)
        return try open(copy, retryPolicy: retryPolicy, configure: configure)
    }

    func download(_ path: String = "/file", to name: String = "file.bin") -> DownloadRequest {
        DownloadRequest(server.url(path), destination: file(name))
    }

    func post(_ path: String = "/post", _ text: String = "text", method: String = "POST") -> OutboxRequest {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        return OutboxRequest(request, body: .data(Data(text.utf8)))
    }

    /// The names of the bodies in the queue's folder.
    var bodies: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: home.appendingPathComponent("bodies").path)) ?? []
    }
}

extension DownloadQueue {
    /// Waits until an entry is in a state.
    func waitFor(_ state: State, of id: UUID) async throws {
        try await waitUntil("\(state)") { entry(id)?.state == state }
    }

    var states: [State] { entries.map(\.state) }
    var tags: [String] { entries.map { $0.tag ?? "" } }
}
