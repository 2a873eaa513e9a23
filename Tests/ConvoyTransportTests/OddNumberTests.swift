import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Invalid times chosen by the user.
@Suite struct OddNumberTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("POST", "/upload", .text("taken"))
    }

    private func upload(_ delay: Double) -> (URLRequest, ConnectionConfiguration) {
        var request = URLRequest(url: server.url("/upload"))
        request.httpMethod = "POST"
        request.httpBodyStream = InputStream(data: Data(repeating: 1, count: 1_000))
        var configuration = ConnectionConfiguration()
        configuration.uploadThrottle = .init(packetSize: 100, delay: delay)
        return (request, configuration)
    }

    @Test(arguments: [1e11, 1e300, .infinity] as [Double])
    func `an infinite throttle pauses the upload until it is cancelled`(delay: Double) async throws {
        let (request, configuration) = upload(delay)
        let delegate = Collector()
        let connection = URLConnection(request: request, configuration: configuration, delegate: delegate)
        connection.start()
        try await server.wait { $0.receivedBodyBytes > 0 }
        connection.cancel()
        guard case .cancelled = delegate.wait()?.ends.first else {
            Issue.record("It was not cancelled.")
            return
        }
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: [-.infinity, -1, 0, .nan] as [Double])
    func `a throttle that is not a valid time is ignored`(delay: Double) throws {
        let (request, configuration) = upload(delay)
        #expect(load(request, configuration: configuration)?.text == "taken")
        #expect(server.requests.last?.bodyLength == 1_000)
    }

    @Test(arguments: [-.infinity, -1, 0, 1e9, 1e11, 1e300, .infinity, .nan] as [Double])
    func `a timeout that is not a valid time is no limit`(timeout: Double) {
        #expect(load(server.url("/upload"), timeout: timeout)?.isFinished == true)
    }
}
