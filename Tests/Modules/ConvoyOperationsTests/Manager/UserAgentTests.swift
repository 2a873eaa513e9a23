import ConvoyOperations
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

/// Tests that the User-Agent identifies the program even if no serializer created the request.
@Suite struct UserAgentTests {
    @Test func `a plain request has the program's User-Agent unless it sets its own`() async throws {
        let server = try TestServer()
        server.route("GET", "/x", .text("x"))
        let standard = try #require(HTTPRequestSerializer().value(forHTTPHeaderField: "User-Agent"))
        for (own, sent) in [(nil, standard), ("me/1", "me/1"), ("", "")] as [(String?, String)] {
            for type in [HTTPRequestOperation.self, URLConnectionOperation.self] {
                var request = URLRequest(url: server.url("/x"))
                if let own { request.setValue(own, forHTTPHeaderField: "user-agent") }
                let operation = type.init(request: request)
                operation.completionQueue = testQueue
                operation.coalescesIdenticalRequests = true
                try await operation.finished()
                #expect(server.requests.last?.headers["User-Agent"] == sent)
            }
        }
    }

    @Test func `a manager whose serializer has no User-Agent sends none`() async throws {
        let server = try TestServer()
        server.route("GET", "/x", .text("x"))
        let manager = HTTPRequestOperationManager(baseURL: server.url("/"))
        manager.completionQueue = testQueue
        manager.responseSerializer = StringResponseSerializer()
        try await manager.response(.get, "x", headers: ["User-Agent": nil])
        #expect(server.requests.last?.headers["User-Agent"] == nil)
        try await manager.response(.get, "x")
        #expect(server.requests.last?.headers["User-Agent"]?.isEmpty == false)
    }
}
