import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that nothing is sent without TLS to hosts that require TLS (RFC 6797).
@Suite struct StrictTransportTests {
    private static let field = "Strict-Transport-Security"

    private func server(_ values: String...) throws -> TrustedServer {
        let trusted = try TrustedServer()
        var response = TestServer.Response.text("over TLS")
        for value in values { response = response.header(Self.field, value) }
        trusted.server.route("/", response)
        return trusted
    }

    private func get(
        _ url: URL, _ trusted: TrustedServer, _ store: HSTSStore?, policy: SecurityPolicy? = nil,
        delegate: Collector = Collector(), on thread: NetworkThread? = nil
    ) throws -> Collector.Heard {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.hsts = store
        configuration.securityPolicy = try policy ?? trusted.policy()
        return try #require(
            load(URLRequest(url: url), configuration: configuration, thread: thread ?? trusted.thread, delegate: delegate))
    }

    private func plain(_ url: URL) throws -> URL {
        try #require(URL(string: url.absoluteString.replacingOccurrences(of: "https:", with: "http:")))
    }

    @Test func `a policy received over TLS applies to the next request`() throws {
        let trusted = try server("max-age=1000", "max-age=0")
        let store = HSTSStore()
        #expect(try get(try plain(trusted.url), trusted, store).error != nil)
        #expect(try get(trusted.url, trusted, store).text == "over TLS")
        // If the field is repeated, only the first one applies.
        #expect(store.hosts.map(\.name) == ["localhost"])
        let heard = try get(try plain(trusted.url), trusted, store)
        #expect(heard.text == "over TLS", "\(heard.ends)")
        #expect(heard.heads.first?.url == trusted.url)
        // A configuration without the store is not affected. (libcurl 8.14 would reuse the TLS connection.)
        #expect(try get(try plain(trusted.url), trusted, nil, on: NetworkThread()).error != nil)
        // The server withdraws its policy.
        trusted.server.route("/", .text("back").header(Self.field, "max-age=0"))
        #expect(try get(try plain(trusted.url), trusted, store).text == "back")
        #expect(store.hosts.isEmpty)
    }

    @Test func `a policy received without full validation or over plain HTTP is ignored`() throws {
        let trusted = try server("max-age=1000")
        let store = HSTSStore()
        #expect(try get(trusted.url, trusted, store, policy: TrustedServer.lax).text == "over TLS")
        var nameless = try trusted.policy()
        nameless.validatesDomainName = false
        #expect(try get(trusted.url, trusted, store, policy: nameless).text == "over TLS")
        // Policies sent in plain text, by an IP address, or with invalid syntax are ignored, too.
        let plainServer = try TestServer()
        plainServer.route("/", .text("plain").header(Self.field, "max-age=1000"))
        #expect(try get(plainServer.url("/", host: "localhost"), trusted, store).text == "plain")
        #expect(try get(trusted.server.url("/", host: "127.0.0.1"), trusted, store).text == "over TLS")
        trusted.server.route("/", .text("bad").header(Self.field, "max-age=5; max-age=5"))
        #expect(try get(trusted.url, trusted, store).text == "bad")
        #expect(store.hosts.isEmpty)
    }

    @Test func `a redirect to an HSTS host is followed over TLS`() throws {
        let trusted = try server()
        let store = HSTSStore()
        store.note("max-age=1000", fromHost: "localhost")
        let other = try TestServer()
        other.redirect("/go", to: try plain(trusted.url).absoluteString)
        let collector = Collector()
        let heard = try get(other.url("/go", host: "127.0.0.1"), trusted, store, delegate: collector)
        #expect(heard.text == "over TLS", "\(heard.ends)")
        // The redirect handler receives the upgraded target.
        #expect(heard.redirects.first?.request.url == trusted.url)
        #expect(heard.heads.last?.url == trusted.url)
    }

    @Test func `an HSTS host is never contacted in plain text`() throws {
        let trusted = try server()
        let store = HSTSStore()
        store.note("max-age=1000", fromHost: "localhost")
        let plainServer = try TestServer()
        plainServer.route("/", .text("plain"))
        // The server does not use TLS on that port, but the request is not sent without TLS.
        let heard = try get(plainServer.url("/", host: "localhost"), trusted, store)
        #expect(heard.error?.code == .secureConnectionFailed, "\(heard.ends)")
        #expect(plainServer.requests.isEmpty)
        // An untrusted certificate is not accepted either.
        let stranger = try get(try plain(trusted.url), trusted, store, policy: SecurityPolicy())
        #expect(stranger.refusal == .unknownRoot)
    }

    @Test func `a redirect loop back to plain text is an error`() throws {
        let trusted = try server()
        let store = HSTSStore()
        store.note("max-age=1000", fromHost: "localhost")
        trusted.server.redirect("/loop", to: try plain(trusted.server.url("/loop", host: "localhost")).absoluteString)
        let heard = try get(trusted.server.url("/loop", host: "localhost"), trusted, store)
        #expect(heard.error?.code == .httpTooManyRedirects, "\(heard.ends)")
    }
}
