import ConvoyDownloads
import ConvoyOperations
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking

/// A server and a directory for downloads.
final class DownloadFixture: Sendable {
    let server: TestServer
    let directory: TemporaryDirectory
    let queue: RequestOperationQueue

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        queue = RequestOperationQueue()
    }

    deinit { server.stop() }

    func file(_ name: String = "file.bin") -> URL { directory.url.appendingPathComponent(name) }

    func download(
        _ path: String = "/file", to name: String = "file.bin", _ change: (DownloadOperation) -> Void = { _ in }
    ) -> DownloadOperation {
        let operation = DownloadOperation(request: URLRequest(url: server.url(path)), destination: file(name))
        operation.completionQueue = .global()
        change(operation)
        return operation
    }

    /// Runs a download to its end.
    @discardableResult
    func run(_ operation: DownloadOperation) async -> DownloadOperation {
        queue.addOperation(operation)
        try? await operation.finished()
        return operation
    }

    /// The names in the directory, sorted.
    var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.url.path)) ?? []).sorted()
    }

    func contents(_ name: String = "file.bin") -> Data? { try? Data(contentsOf: file(name)) }
}
