import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// The queue and the class of a copied operation manager.
@Suite struct ManagerCopyTests {
    @Test func `a copy has its own queue with the same limits`() throws {
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

    @Test func `a copy created with a subclass initializer is an instance of that subclass`() throws {
        let copy = TokenManager(copying: TokenManager(baseURL: URL(string: "http://127.0.0.1/")))
        #expect(try copy.makeOperation(.get, "x").request.value(forHTTPHeaderField: "X-Token") == "t0ken")
    }

    private final class OwnEncoder: JSONEncoder, @unchecked Sendable {}
    private final class OwnDecoder: JSONDecoder, @unchecked Sendable {}

    @Test func `a copy has its own encoder and decoder, but shares instances of a subclass`() {
        let manager = HTTPRequestOperationManager(baseURL: nil)
        for (encoder, decoder, isShared) in [
            (JSONEncoder(), JSONDecoder(), false), (OwnEncoder(), OwnDecoder(), true),
        ] {
            (manager.encoder, manager.decoder) = (encoder, decoder)
            let copy = manager.makeCopy()
            #expect((copy.encoder === encoder) == isShared && (copy.decoder === decoder) == isShared)
        }
    }

    @Test func `a manager's description contains its queue and its base URL without a password`() {
        let manager = HTTPRequestOperationManager(baseURL: URL(string: "https://ada:secret@example.com/v1/"))
        let text = "\(manager)"
        #expect(text.hasPrefix("<HTTPRequestOperationManager: 0x"))
        #expect(text.hasSuffix("baseURL: https://***@example.com/v1/, operationQueue: Convoy.Operations, 0 operations>"))
    }
}
