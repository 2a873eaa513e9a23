import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

/// Operations whose address is refused, which fail immediately under any retry policy.
@Suite struct RefusedOperationTests {
    @Test func `a refused address is not retried`() throws {
        let server = try TestServer()
        server.route(nil, "/", .text("secret"))
        let operation = HTTPRequestOperation(request: URLRequest(url: server.url("/")))
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.addressGuard = .publicAddresses
        operation.connectionConfiguration = configuration
        var policy = RetryPolicy()
        policy.errorCodes.insert(.dataNotAllowed)
        // A retry would take an hour.
        policy.initialDelay = 3600
        policy.maximumDelay = 3600
        operation.retryPolicy = policy
        operation.start()
        operation.waitUntilFinished()
        let error = operation.error as? URLError
        #expect(error?.code == .dataNotAllowed)
        #expect(error?.addressRefusal?.network == (try IPNetwork("127.0.0.0/8")))
        #expect(server.totalConnectionCount == 0)
    }
}
