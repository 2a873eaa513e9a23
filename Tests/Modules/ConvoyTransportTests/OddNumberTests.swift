import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Invalid timeouts that a user has set.
@Suite struct OddNumberTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("POST", "/upload", .text("taken"))
    }

    @Test(arguments: [-.infinity, -1, 0, 1e9, 1e11, 1e300, .infinity, .nan] as [Double])
    func `an invalid timeout sets no limit`(timeout: Double) {
        #expect(load(server.url("/upload"), timeout: timeout)?.isFinished == true)
    }
}
