import ConvoyCookies
import ConvoySerialization
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that operations share a transfer only if they send the same cookies.
@Suite struct CoalescedCookieTests {
    @Test(arguments: [true, false])
    func `requests without cookies or from another site do not share a transfer`(isCrossSite: Bool) async throws {
        let server = try TestServer()
        let gate = TestServer.Gate()
        server.route("GET", "/x") { request in .text(request.headers["Cookie"] ?? "none").held(by: gate) }
        let manager = HTTPRequestOperationManager(baseURL: server.url, completionQueue: testQueue)
        manager.responseSerializer = HTTPResponseSerializer()
        manager.coalescesIdenticalRequests = true
        let store = CookieStore()
        store.setCookies(["a=1; SameSite=Strict"], from: server.url)
        manager.cookieStore = store
        let own = URLRequest(url: server.url("/x"))
        var other = own
        if isCrossSite {
            other.mainDocumentURL = URL(string: "http://elsewhere.example/")
        } else {
            other.httpShouldHandleCookies = false
        }
        let operations = [own, other, own, other].map { manager.makeOperation(request: $0) }
        for operation in operations { manager.enqueue(operation) }
        try await server.waitForRequests(count: 2)
        gate.open()
        for operation in operations { try await operation.finished() }
        #expect(operations.map(\.responseString) == ["a=1", "none", "a=1", "none"])
        #expect(server.requests.count == 2)
    }
}
