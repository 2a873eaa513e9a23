import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// A copy of a manager has the same settings, and shares none that is a value.
@Suite struct ManagerCopyTests {
    private struct Name: Codable, Equatable, Sendable { var firstName: String }

    @Test func `a copy sends and reads what the first manager would`() async throws {
        let server = try TestServer()
        server.route("/v1/name", .json(text: #"{"first_name":"Ada"}"#))
        let manager = HTTPRequestOperationManager(
            baseURL: server.url("/v1"), completionQueue: DispatchQueue(label: "Convoy.Copy"))
        manager.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        manager.decoder.keyDecodingStrategy = .convertFromSnakeCase
        manager.completionGroup = DispatchGroup()
        manager.retryPolicy = RetryPolicy(maximumRetryCount: 7)
        manager.idleTimeout = 5
        manager.totalTimeout = 50
        manager.connectionConfiguration.sensitiveHeaders = ["X-One"]
        manager.networkThreadCount = 2

        let copy = manager.makeCopy()
        #expect(try await copy.get("name", as: Name.self) == Name(firstName: "Ada"))
        #expect(server.requests.last?.headers["X-One"] == "one")
        #expect(copy.baseURL == manager.baseURL && copy.completionQueue === manager.completionQueue)
        #expect(copy.completionGroup === manager.completionGroup)
        #expect(copy.retryPolicy?.maximumRetryCount == 7)
        #expect(copy.idleTimeout == 5 && copy.totalTimeout == 50)
        #expect(copy.connectionConfiguration == manager.connectionConfiguration && copy.networkThreadCount == 2)
    }

    @Test func `what is changed in a copy stays as it was in the first manager, and the other way round`() {
        let manager = HTTPRequestOperationManager()
        let copy = manager.makeCopy()
        copy.requestSerializer.setValue("one", forHTTPHeaderField: "X-One")
        copy.decoder.keyDecodingStrategy = .convertFromSnakeCase
        copy.encoder.outputFormatting = .sortedKeys
        manager.responseSerializer.acceptableContentTypes = nil
        manager.idleTimeout = 5
        #expect(manager.requestSerializer.value(forHTTPHeaderField: "X-One") == nil)
        if case .convertFromSnakeCase = manager.decoder.keyDecodingStrategy { Issue.record("the decoder is shared") }
        #expect(manager.encoder.outputFormatting == [])
        #expect(copy.responseSerializer.acceptableContentTypes != nil && copy.idleTimeout == nil)
    }

    @Test func `a copy has a queue of its own with the same limits`() throws {
        let manager = HTTPRequestOperationManager()
        let first = try #require(manager.requestOperationQueue)
        first.name = "first"
        first.maxConcurrentOperationCount = 3
        first.maxConcurrentOperationCountPerHost = 2
        first.maximumLength = 100
        first.overflowPolicy = .wait
        first.priorityAgingInterval = 4
        let second = try #require(manager.makeCopy().requestOperationQueue)
        #expect(second !== first && second.name == "first")
        #expect(second.maxConcurrentOperationCount == 3 && second.maxConcurrentOperationCountPerHost == 2)
        #expect(second.maximumLength == 100 && second.overflowPolicy == .wait && second.priorityAgingInterval == 4)

        let foundation = OperationQueue()
        foundation.maxConcurrentOperationCount = 5
        manager.operationQueue = foundation
        let copy = manager.makeCopy()
        #expect(copy.operationQueue !== foundation && copy.requestOperationQueue == nil)
        #expect(copy.maxConcurrentOperationCount == 5)
    }

    private final class TokenManager: HTTPRequestOperationManager, @unchecked Sendable {
        override func makeOperation(request: URLRequest) -> HTTPRequestOperation {
            var request = request
            request.setValue("t0ken", forHTTPHeaderField: "X-Token")
            return super.makeOperation(request: request)
        }
    }

    @Test func `a copy of a subclass is one of that subclass where it is asked for`() throws {
        let copy = TokenManager(copying: TokenManager(baseURL: URL(string: "http://127.0.0.1/")))
        #expect(try copy.makeOperation(.get, "x").request.value(forHTTPHeaderField: "X-Token") == "t0ken")
    }

    @Test func `the description of a manager names its base URL without a password, and its queue`() {
        let manager = HTTPRequestOperationManager(baseURL: URL(string: "https://ada:secret@example.com/v1/"))
        let text = "\(manager)"
        #expect(text.hasPrefix("<HTTPRequestOperationManager: 0x"))
        #expect(text.hasSuffix("baseURL: https://***@example.com/v1/, operationQueue: Convoy.Operations, 0 operations>"))
    }
}
