import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that an unsolicited response (RFC 9112, section 9.2) is never mistaken for the response to the next request,
/// no matter how the previous transfer left the connection.
@Suite struct AbandonedResponseTests {
    /// The way in which a transfer ends.
    enum Departure: String, CaseIterable, Sendable {
        case success
        case cancellationAtHead
        case cancellationAtLastByte
        case cancellationWhileHeld
        case followedRedirect
        case timeout
        case stall
        case refusedHead
        case undecodableBody
    }

    private static let unsolicited = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

    private func text(for departure: Departure) -> String {
        switch departure {
        case .success, .cancellationAtLastByte, .cancellationWhileHeld: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
        case .cancellationAtHead: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        case .followedRedirect:
            "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
        case .timeout, .stall: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nfirst"
        case .refusedHead: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
        case .undecodableBody: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nfirst"
        }
    }

    @Test(arguments: Departure.allCases)
    func `an unsolicited response never answers the next request`(departure: Departure) throws {
        let server = try TestServer()
        server.route("GET", "/fine", .text("fine").closing())
        server.route("GET", "/other", .text("other"))
        let thread = NetworkThread()
        let text = text(for: departure)
        for round in 0..<(PropertyBudget.rounds(10)) {
            let gate = TestServer.Gate()
            // The next request of a redirect follows immediately, so the unsolicited response must already have
            // arrived.
            let response = TestServer.Response.raw(text + Self.unsolicited)
            server.route(
                "GET", "/spoken",
                departure == .followedRedirect ? response : response.heldBody(by: gate, afterBytes: text.utf8.count))
            var request = URLRequest(url: server.url("/spoken"))
            request.timeoutInterval = departure == .timeout ? 0.05 : 30
            var configuration = ConnectionConfiguration()
            if departure == .stall { configuration.stallLimit = StallLimit(bytesPerSecond: 1000, duration: 0.05) }
            let heard = load(
                request, configuration: configuration, thread: thread, delegate: collector(for: departure))
            #expect(heard?.ends.count == 1 && heard?.text != "evil", "\(departure), round \(round)")
            gate.open()
            if departure != .followedRedirect {
                try eventually("\(departure), round \(round)") { server.openConnectionCount == 0 }
            }
            let next = try #require(load(URLRequest(url: server.url("/fine")), thread: thread))
            #expect(next.isFinished && next.text == "fine", "\(departure), round \(round)")
            try eventually { server.openConnectionCount == 0 }
        }
    }

    private func collector(for departure: Departure) -> Collector {
        switch departure {
        case .cancellationAtHead: Collector(onHead: { $0.cancel() })
        case .cancellationAtLastByte: Collector(onData: { $0.cancel() })
        case .cancellationWhileHeld:
            Collector(onHead: { connection in
                connection.suspendReceiving()
                DispatchQueue.global().async { connection.cancel() }
            })
        default: Collector()
        }
    }
}
