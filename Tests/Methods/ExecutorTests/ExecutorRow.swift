import ConvoyOperations
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking

/// How a call ends.
enum Ending: String, CaseIterable {
    case success, error, cancellation
}

/// A call of a public async function from an actor. Its closure begins with `defer { attempt.check(actor) }`, in the
/// calling function, because callers further up return to their executor in any case.
struct ExecutorRow: Sendable, CustomStringConvertible {
    typealias Call = @Sendable (_ actor: isolated any Actor, _ attempt: Attempt) async throws -> Void

    /// The name of the declaration in Tests/API. Tests/api requires one row for each declaration of that name.
    let declaration: String
    /// The results that this function can have.
    let endings: [Ending]
    /// Whether the task is cancelled before the call, because no request reaches the server.
    let isCancelledFirst: Bool
    let call: Call

    var description: String { declaration }
}

func row(
    _ declaration: String, _ endings: [Ending] = Ending.allCases, isCancelledFirst: Bool = false,
    _ call: @escaping ExecutorRow.Call
) -> ExecutorRow {
    ExecutorRow(declaration: declaration, endings: endings, isCancelledFirst: isCancelledFirst, call: call)
}

/// The resources for a call, and the executor on which it continued.
final class Attempt: Sendable {
    let ending: Ending
    let directory: TemporaryDirectory
    private let server: TestServer
    private let executorIsKept = Locked<Bool?>(nil)

    init(_ ending: Ending, at server: TestServer) throws {
        self.ending = ending
        self.server = server
        directory = try TemporaryDirectory(prefix: "convoy-executor")
    }

    deinit { directory.remove() }

    /// Whether the code after the call ran on the actor; nil if it did not run.
    var keepsExecutor: Bool? { executorIsKept.withLock { $0 } }

    /// Records whether the caller runs on its actor.
    func check(_ actor: isolated any Actor) { executorIsKept.withLock { $0 = actor.isCurrent } }

    // MARK: Requests

    /// Returns a URL whose request ends like the attempt, or in the given way.
    func url(_ path: String = "value", _ ending: Ending? = nil) -> URL {
        server.url("/\((ending ?? self.ending).rawValue)/\(path)")
    }

    func request(_ path: String = "value") -> URLRequest { URLRequest(url: url(path)) }

    let manager = HTTPRequestOperationManager()

    func operation(_ path: String = "value") throws -> HTTPRequestOperation { try manager.makeOperation(.get, url(path)) }

    func file(_ name: String = "file") -> URL { directory.url.appendingPathComponent(name) }

    func writtenFile() throws -> URL {
        try Data("text".utf8).write(to: file("written"))
        return file("written")
    }

    var pieces: AsyncStream<Data> {
        AsyncStream { continuation in
            continuation.yield(Data("text".utf8))
            continuation.finish()
        }
    }
}
