import ConvoyOperations
import ConvoyRealtime
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

/// Connections of event sources, to which the rules for other requests apply as well.
@Suite struct EventSourceSpellingTests {
    @Test func `a source with pinned keys never connects over plain HTTP, for any spelling of its URL`() async throws {
        let server = try TestServer()
        server.route("/x", inTurn: [.events("data: a\n\n"), .noMore])
        var policy = SecurityPolicy()
        policy.pinningMode = .publicKey
        policy.publicKeyPins = [try PublicKeyPin("sha256/\(Data(repeating: 7, count: 32).base64EncodedString())")]
        for text in Spelling.urls(Spelling.http, Spelling.loopback, port: Int(server.port), "/x") {
            let source = EventSource.test(try #require(URL(string: text)))
            source.connectionConfiguration.proxy = .none
            source.connectionConfiguration.securityPolicy = policy
            await #expect(throws: (any Error).self, "\(text)") { try await source.finished() }
            #expect((source.error as? URLError)?.code == .appTransportSecurityRequiresSecureConnection, "\(text)")
        }
        #expect(server.statistics.totalConnectionCount == 0)
        let source = EventSource.test(try #require(URL(string: "HTTP://0x7f.1:\(server.port)/x")))
        try await source.finished()
        #expect(server.requests.count == 2)
    }
}
