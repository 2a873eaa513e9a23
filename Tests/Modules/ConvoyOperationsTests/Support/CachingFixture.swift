import ConvoyCache
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking

@testable import ConvoyOperations

/// A server, and a manager whose cache stores its responses.
struct CachingFixture {
    let server: TestServer
    let manager: HTTPRequestOperationManager
    let cache = HTTPCache()

    init() throws {
        server = try TestServer()
        manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.cache = cache
    }
}

/// Tests with a ``CachingFixture``.
protocol CachingSuite {
    var fixture: CachingFixture { get }
}

extension CachingSuite {
    var server: TestServer { fixture.server }
    var manager: HTTPRequestOperationManager { fixture.manager }
    var cache: HTTPCache { fixture.cache }

    @discardableResult
    func get(_ path: String, _ change: (inout URLRequest) -> Void = { _ in }) async throws -> HTTPRequestOperation {
        var request = URLRequest(url: try manager.url(for: path))
        change(&request)
        let operation = manager.enqueue(manager.makeOperation(request: request))
        try await operation.finished()
        return operation
    }
}
