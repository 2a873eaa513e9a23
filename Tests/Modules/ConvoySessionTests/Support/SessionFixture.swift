import ConvoyOperations
import ConvoySerialization
import ConvoySession
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking

/// A server, a directory for files, and a manager whose handlers do not need the main queue.
final class SessionFixture: Sendable {
    let server: TestServer
    let directory: TemporaryDirectory
    let manager: HTTPSessionManager
    /// The entries logged by handlers, in order.
    let log = Locked<[String]>([])

    init(_ configure: (inout SessionConfiguration) -> Void = { _ in }) throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        var configuration = SessionConfiguration.ephemeral
        configuration.temporaryDirectory = directory.url.appendingPathComponent("parts")
        configure(&configuration)
        manager = HTTPSessionManager(
            baseURL: server.url("/"), configuration: configuration, completionQueue: DispatchQueue(label: "Convoy.Tests"))
        manager.responseSerializer = HTTPResponseSerializer()
    }

    deinit { server.stop() }

    func request(_ path: String, method: String = "GET") -> URLRequest {
        var request = URLRequest(url: server.url(path))
        request.httpMethod = method
        return request
    }

    func file(_ name: String) -> URL { directory.url.appendingPathComponent(name) }

    func contents(_ name: String) -> Data? { try? Data(contentsOf: file(name)) }

    /// The names of the partial files.
    var parts: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.url.appendingPathComponent("parts").path)) ?? [])
            .sorted()
    }

    func note(_ text: String) { log.withLock { $0.append(text) } }
    var notes: [String] { log.withLock { $0 } }

    /// Waits until all handler calls scheduled so far have run.
    func settle() { manager.handlerQueue.sync {} }
}

extension SessionTask {
    /// Waits for the end of the task, with or without success. Returns the error.
    @discardableResult
    func end() async -> (any Error)? {
        do {
            try await finished()
            return nil
        } catch {
            return error
        }
    }
}
