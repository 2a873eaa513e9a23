import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// What another origin receives after a redirect, field by field.
@Suite struct OriginTests {
    /// In what the second origin differs from the first.
    enum Difference: String, CaseIterable, Sendable { case port, host, scheme }

    private static let secrets = [
        "Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "WWW-Authenticate", "X-Token", "x-marked",
    ]
    private static let others = ["X-Harmless", "Accept", "Content-Language", "If-None-Match", "Origin"]

    private let first: TestServer
    private let second: TestServer
    private let configuration: ConnectionConfiguration

    init() throws {
        first = try TestServer()
        second = try TestServer()
        var configuration = ConnectionConfiguration(sensitiveHeaders: ["x-token", "X-Marked"])
        configuration.securityPolicy = TrustedServer.lax
        self.configuration = configuration
        for server in [first, second] { server.route(nil, "/end", .text("there")) }
    }

    private func url(_ path: String, _ difference: Difference) throws -> URL {
        switch difference {
        case .port: return second.url(path)
        case .host: return first.url(path, host: "localhost")
        case .scheme:
            try second.setTLS(TestServer.TLS(TestCertificate.selfSigned(.server(["127.0.0.1"]))))
            return second.url(path, host: "127.0.0.1")
        }
    }

    private func request(_ fields: [String], method: String = "GET", body: String? = nil) -> URLRequest {
        var request = URLRequest(url: first.url("/start"))
        request.httpMethod = method
        request.httpBody = body.map { Data($0.utf8) }
        request.allHTTPHeaderFields = Dictionary(uniqueKeysWithValues: fields.map { ($0, "value of \($0)") })
        return request
    }

    /// The lines of a request's header, but for the order, which is not ours.
    private func lines(_ request: RecordedRequest) -> Set<String> {
        Set(request.headers.fields.map { "\($0.name): \($0.value)" })
    }

    @Test(arguments: [301, 302, 303, 307, 308], Difference.allCases)
    func `another origin gets the header without what is secret`(status: Int, difference: Difference) throws {
        let target = try url("/end", difference)
        first.redirect("/start", to: target.absoluteString, status: status)
        let heard = try #require(load(request(Self.secrets + Self.others), configuration: configuration))
        #expect(heard.isFinished, "\(heard.ends)")
        let sent = try #require(first.requests("/start").first)
        let received = try #require((first.requests("/end") + second.requests("/end")).first)
        let secret = Self.secrets.map { "\($0): value of \($0)" } + ["Host: 127.0.0.1:\(first.port)"]
        #expect(
            lines(received)
                == lines(sent).subtracting(secret).union(["Host: \(target.host ?? ""):\(target.port ?? 0)"]))
        // Else the test above shows nothing.
        #expect(lines(sent).isSuperset(of: secret.filter { !$0.hasPrefix("Proxy") }))
        let event = try #require(heard.events.first)
        #expect(heard.events.count == 1 && event.outcome == .followed && event.statusCode == status)
        #expect(event.removedFields == Self.secrets.sorted().map { .init(name: $0, reason: .secretOfOtherOrigin) })
    }

    @Test(arguments: [301, 302, 303, 307, 308], secrets)
    func `a secret is not sent to another origin, whatever the redirect`(status: Int, name: String) throws {
        first.redirect("/start", to: second.url("/end").absoluteString, status: status)
        let heard = try #require(load(request([name], method: "POST", body: "body"), configuration: configuration))
        let received = try #require(second.requests.first)
        let becomesGet = status < 304
        #expect(received.method == (becomesGet ? "GET" : "POST") && received.text == (becomesGet ? "" : "body"))
        #expect(received.headers[name] == nil && heard.events.first?.removedFields.map(\.name) == [name])
    }

    @Test func `what was removed does not come back with the first origin`() throws {
        first.redirect("/start", to: second.url("/middle").absoluteString)
        second.redirect("/middle", to: first.url("/end").absoluteString)
        let heard = try #require(load(request(Self.secrets + Self.others), configuration: configuration))
        let last = try #require(first.requests("/end").first)
        #expect(lines(last).isDisjoint(with: Self.secrets.map { "\($0): value of \($0)" }))
        #expect(last.headers["X-Harmless"] == "value of X-Harmless")
        #expect(heard.events.map(\.removedFields.count) == [Self.secrets.count, 0])
    }

    @Test(arguments: [
        ("http://user@h/x", "/end", true), ("http://h/x", "", false), ("https://h/x", "", true),
        ("https://h/x", "/end", true),
        ("http://h/x@y", "", false),
    ])
    func `a Referer tells no password, and nothing of https to plain text`(
        referer: String, path: String, isRemoved: Bool
    ) throws {
        first.redirect("/start", to: path.isEmpty ? second.url("/end").absoluteString : path)
        var request = URLRequest(url: first.url("/start"))
        request.setValue(referer, forHTTPHeaderField: "Referer")
        let heard = try #require(load(request, configuration: configuration))
        let last = try #require((first.requests("/end") + second.requests("/end")).first)
        #expect(last.headers["Referer"] == (isRemoved ? nil : referer))
        #expect(heard.events.first?.removedFields.map(\.reason) == (isRemoved ? [.revealingReferer] : []))
    }

    @Test func `a Host of the caller's stays with its origin`() throws {
        first.redirect("/start", to: "/middle")
        first.redirect("/middle", to: second.url("/end").absoluteString)
        var request = URLRequest(url: first.url("/start"))
        request.setValue("other.example", forHTTPHeaderField: "Host")
        let heard = try #require(load(request, configuration: configuration))
        #expect(first.requests.map { $0.headers["Host"] } == ["other.example", "other.example"])
        #expect(second.requests.first?.headers["Host"] == "127.0.0.1:\(second.port)")
        #expect(heard.events.last?.removedFields == [.init(name: "Host", reason: .namesOtherOrigin)])
    }

    @Test(arguments: [
        ("http://h/", "http://H:80/x", true), ("https://h:443", "https://h/", true), ("http://h/", "http://h./", false),
        ("http://h/", "http://h:81/", false), ("http://h/", "https://h/", false), ("http://h:443/", "https://h/", false),
        ("http://127.0.0.1/", "http://localhost/", false), ("http://[::1]/", "http://[0:0::1]/", true),
        ("http://a.h/", "http://h/", false), ("http://h:0080/", "http://h/", true), ("http://h:/", "http://h/", true),
    ])
    func `origins are the same only if scheme, host and port are`(one: String, other: String, isSame: Bool) throws {
        #expect(Target.isSame(URL(string: one), URL(string: other)) == isSame)
    }

    // MARK: Plain text

    @Test(arguments: [false, true])
    func `https is left only where that is allowed, and without secrets`(isAllowed: Bool) throws {
        let secure = try TrustedServer()
        secure.server.redirect("/start", to: second.url("/end").absoluteString, status: 307)
        var configuration = configuration
        configuration.allowsRedirectToPlainText = isAllowed
        var request = request(["Authorization", "X-Token", "X-Harmless"])
        request.url = secure.server.url("/start", host: "localhost")
        let heard = try #require(load(request, configuration: configuration))
        #expect(second.requests.count == (isAllowed ? 1 : 0) && second.totalConnectionCount == (isAllowed ? 1 : 0))
        guard isAllowed else {
            #expect(heard.error?.code == .appTransportSecurityRequiresSecureConnection)
            #expect(heard.error?.redirectRefusal == .plainText)
            #expect(heard.events.map(\.outcome) == [.refused(.plainText)])
            return
        }
        #expect(second.requests.first?.headers["Authorization"] == nil)
        #expect(second.requests.first?.headers["X-Token"] == nil)
        #expect(second.requests.first?.headers["X-Harmless"] != nil)
    }
}
