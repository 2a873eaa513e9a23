import ConvoySecurity
import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that the credentials of a manager are not sent by other managers.
@Suite struct CredentialOwnerTests {
    let asking: AskingServer

    init() throws {
        asking = try AskingServer()
        asking.protect("/in")
    }

    private func manager() -> HTTPRequestOperationManager {
        let manager = HTTPRequestOperationManager(completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        return manager
    }

    private func status(_ operation: HTTPRequestOperation) async -> Int? {
        try? await operation.finished()
        return operation.statusCode
    }

    @Test func `a credential from one manager's handler is not sent by others or by standalone operations`() async throws {
        let (first, second) = (manager(), manager())
        first.authenticationChallengeHandler = { _, _, answer in answer(.useCredential(AskingServer.ada)) }
        let request = URLRequest(url: asking.url("/in"))
        #expect(await status(first.enqueue(first.makeOperation(request: request))) == 200)
        #expect(await status(second.enqueue(second.makeOperation(request: request))) == 401)
        let alone = HTTPRequestOperation(request: request)
        alone.completionQueue = testQueue
        alone.start()
        #expect(await status(alone) == 401)
        #expect(asking.authorizations("/in") == ["none", AskingServer.basic, "none", "none"])
        // The manager's own operations send the credential, and so do those of a copy.
        first.authenticationChallengeHandler = nil
        #expect(await status(first.enqueue(first.makeOperation(request: request))) == 200)
        let copy = first.makeCopy()
        #expect(await status(copy.enqueue(copy.makeOperation(request: request))) == 200)
        #expect(asking.authorizations("/in").suffix(2) == [AskingServer.basic, AskingServer.basic])
    }

    @Test func `the shared store is used only where it is set`() async throws {
        let (first, second) = (manager(), manager())
        #expect(first.credentialStore !== CredentialStore.shared && first.credentialStore !== second.credentialStore)
        let request = URLRequest(url: asking.url("/in"))
        #expect(HTTPRequestOperation(request: request).credentialStore !== CredentialStore.shared)
        let operation = HTTPRequestOperation(request: request)
        #expect(operation.credentialStore === operation.credentialStore)
        (first.credentialStore, second.credentialStore) = (.shared, .shared)
        first.authenticationChallengeHandler = { _, _, answer in answer(.useCredential(AskingServer.ada)) }
        #expect(await status(first.enqueue(first.makeOperation(request: request))) == 200)
        #expect(await status(second.enqueue(second.makeOperation(request: request))) == 200)
        CredentialStore.shared.removeAll()
    }

    @Test func `an operation's own store keeps its credential`() async throws {
        let operation = HTTPRequestOperation(request: URLRequest(url: asking.url("/in")))
        operation.completionQueue = testQueue
        operation.credentialStore.set(AskingServer.ada, forOriginOf: asking.url("/"))
        operation.start()
        #expect(await status(operation) == 200)
    }
}
