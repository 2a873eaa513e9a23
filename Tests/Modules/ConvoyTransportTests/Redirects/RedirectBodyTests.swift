import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that a followed redirect does not wait for the end of its body.
@Suite struct RedirectBodyTests {
    let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("GET", "/there", .text("there"))
    }

    private func moved(_ count: Int) -> TestServer.Response {
        TestServer.Response.bytes(Data(repeating: 0x2E, count: count), status: 302).header("Location", "/there")
    }

    /// Follows a redirect with a timeout that waiting for the body would exceed.
    private func follow(_ response: TestServer.Response, by delegate: Collector = Collector()) throws -> Collector.Heard {
        server.route("GET", "/moved", response)
        var request = URLRequest(url: server.url("/moved"))
        request.timeoutInterval = 2
        return try #require(load(request, delegate: delegate))
    }

    private func isFollowed(_ response: TestServer.Response) throws -> Bool {
        let heard = try follow(response)
        return heard.isFinished && heard.text == "there" && server.requests("/there").count == 1
    }

    @Test func `a redirect does not wait for a body that ends with its connection`() throws {
        #expect(try isFollowed(moved(5).framed(.closeDelimited).stalls(afterBytes: 5)))
    }

    @Test(arguments: [0, 5])
    func `a redirect does not wait for a body that stalls`(count: Int) throws {
        #expect(try isFollowed(moved(100).stalls(afterBytes: count)))
        server.forgetRequests()
        #expect(try isFollowed(moved(100).framed(.chunked).stalls(afterBytes: count)))
    }

    @Test func `a redirect does not wait for an endless body`() throws {
        var drip = moved(20_000).framed(.chunked)
        drip.effects.pace = .drip(bytes: 1, interval: 0.02)
        #expect(try isFollowed(drip))
    }

    @Test func `a truncated body of a redirect is not an error`() throws {
        for response in [moved(100).truncated(afterBytes: 5), moved(100).resets(afterBytes: 5)] {
            server.forgetRequests()
            #expect(try isFollowed(response))
        }
        server.forgetRequests()
        #expect(try isFollowed(moved(100).framed(.chunked).truncated(afterBytes: 5)))
    }

    @Test func `a wrongly encoded body of a redirect is not an error`() throws {
        #expect(try isFollowed(moved(100).header("Content-Encoding", "gzip")))
    }

    @Test func `a delegate that decides later does not wait for the body either`() throws {
        for response in [moved(100).stalls(afterBytes: 5), moved(5).framed(.closeDelimited).stalls(afterBytes: 5)] {
            let slow = Collector(decision: { redirect, decide in
                DispatchQueue.global().async { decide(redirect.request) }
            })
            let heard = try follow(response, by: slow)
            #expect(heard.isFinished && heard.text == "there")
        }
    }

    @Test func `a short body is read, and its connection is reused`() throws {
        for response in [moved(0), moved(500), moved(500).framed(.chunked)] {
            server.forgetRequests()
            #expect(try isFollowed(response))
            #expect(Set(server.requests.map(\.connection)).count == 1)
        }
    }

    @Test func `a long body is not read`() throws {
        #expect(try isFollowed(TestServer.Response.pattern(count: 1 << 30).status(302).header("Location", "/there")))
        #expect(server.requests.map(\.connection).count == 2)
        #expect(Set(server.requests.map(\.connection)).count == 2)
    }

    @Test func `the body must be complete if the redirect is taken as the response`() throws {
        let taken = Collector(decision: { _, decide in decide(nil) })
        let heard = try follow(moved(100).truncated(afterBytes: 5), by: taken)
        #expect(heard.error?.code == .networkConnectionLost)
    }
}
