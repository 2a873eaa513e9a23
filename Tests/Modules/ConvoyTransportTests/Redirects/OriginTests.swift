import ConvoySupport
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The fields that another origin receives after a redirect.
@Suite struct OriginTests {
    /// The difference between the two origins.
    enum Difference: String, CaseIterable, Sendable { case port, host, scheme }

    private static let secrets = [
        "Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "WWW-Authenticate", "X-Token", "x-marked",
    ]
    /// Fields that are recognized as secret by their names, without being marked.
    private static let secretsByName = [
        "X-Api-Key", "X-Auth-Token", "X-Amz-Security-Token", "Private-Token", "Ocp-Apim-Subscription-Key",
    ]
    private static let unknown = ["X-Unknown", "Origin", "Idempotency-Key"]
    private static let harmless = ["Accept", "Content-Language", "If-None-Match", "Range", "If-Range", "User-Agent"]

    private static let all = secrets + secretsByName + unknown + harmless

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

    /// Returns the lines of a request's header as a set, because their order is arbitrary.
    private func lines(_ request: RecordedRequest) -> Set<String> {
        Set(request.headers.fields.map { "\($0.name): \($0.value)" })
    }

    @Test(arguments: [301, 302, 303, 307, 308], Difference.allCases)
    func `another origin receives the header without secrets`(status: Int, difference: Difference) throws {
        let target = try url("/end", difference)
        first.redirect("/start", to: target.absoluteString, status: status)
        let heard = try #require(load(request(Self.all), configuration: configuration))
        #expect(heard.isFinished, "\(heard.ends)")
        let sent = try #require(first.requests("/start").first)
        let received = try #require((first.requests("/end") + second.requests("/end")).first)
        let secret =
            (Self.secrets + Self.secretsByName + Self.unknown).map { "\($0): value of \($0)" } + [
                "Host: 127.0.0.1:\(first.port)"
            ]
        #expect(
            lines(received)
                == lines(sent).subtracting(secret).union(["Host: \(target.host ?? ""):\(target.port ?? 0)"]))
        // This control shows that the check above is meaningful.
        #expect(lines(sent).isSuperset(of: secret.filter { !$0.hasPrefix("Proxy") }))
        let event = try #require(heard.events.first)
        #expect(heard.events.count == 1 && event.outcome == .followed && event.statusCode == status)
        let removed =
            (Self.secrets + Self.secretsByName).map { ($0, RedirectEvent.RemovedField.Reason.secretOfOtherOrigin) }
            + Self.unknown.map { ($0, .notKnownToBeHarmless) }
        #expect(event.removedFields == removed.sorted { $0.0 < $1.0 }.map { .init(name: $0.0, reason: $0.1) })
    }

    @Test(arguments: [301, 302, 303, 307, 308], secrets + secretsByName)
    func `a secret is never sent to another origin`(status: Int, name: String) throws {
        first.redirect("/start", to: second.url("/end").absoluteString, status: status)
        var configuration = configuration
        configuration.sendsBodiesAcrossOrigins = true
        let heard = try #require(load(request([name], method: "POST", body: "body"), configuration: configuration))
        let received = try #require(second.requests.first)
        let becomesGet = status < 304
        #expect(received.method == (becomesGet ? "GET" : "POST") && received.text == (becomesGet ? "" : "body"))
        #expect(received.headers[name] == nil && heard.events.first?.removedFields.map(\.name) == [name])
    }

    @Test func `removed fields are not restored when a redirect returns to the first origin`() throws {
        first.redirect("/start", to: second.url("/middle").absoluteString)
        second.redirect("/middle", to: first.url("/end").absoluteString)
        let heard = try #require(load(request(Self.all), configuration: configuration))
        let last = try #require(first.requests("/end").first)
        #expect(lines(last).isDisjoint(with: Self.secrets.map { "\($0): value of \($0)" }))
        #expect(last.headers["Accept"] == "value of Accept")
        #expect(heard.events.map(\.removedFields.count) == [Self.all.count - Self.harmless.count, 0])
    }

    @Test(
        arguments: [
            ("http://user@h/x", "/end", nil), ("http://h/x", "", "http://h/"), ("https://h/x", "", nil),
            ("https://h/x", "/end", nil), ("http://h/x@y", "", "http://h/"), ("http://h/", "", "http://h/"),
            ("http://h/x?token=s3", "/end", "http://h/x?token=s3"), ("http://h/x?token=s3", "", "http://h/"),
            ("HTTP://h:81?token=s3#x", "", "http://h:81/"), ("/x?token=s3", "", nil), ("http:/a:s3@h/", "", nil),
            ("mailto:ada@h", "", nil), ("http://a\\@h/", "", nil), ("s3cret", "", nil),
        ] as [(String, String, String?)])
    func `a Referer does not reveal passwords, secure URLs or paths to another origin`(
        referer: String, path: String, received: String?
    ) throws {
        first.redirect("/start", to: path.isEmpty ? second.url("/end").absoluteString : path)
        var request = URLRequest(url: first.url("/start"))
        request.setValue(referer, forHTTPHeaderField: "Referer")
        let heard = try #require(load(request, configuration: configuration))
        let last = try #require((first.requests("/end") + second.requests("/end")).first)
        #expect(last.headers["Referer"] == received)
        let event = try #require(heard.events.first)
        #expect(event.removedFields.map(\.reason) == (received == nil ? [.revealingReferer] : []))
        #expect(event.shortensReferer == (received != nil && received != referer))
    }

    @Test func `a custom Host field is sent only to its origin`() throws {
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
    func `origins are equal only if scheme, host and port are`(one: String, other: String, isSame: Bool) throws {
        #expect(Target.isSame(URL(string: one), URL(string: other)) == isSame)
    }

    // MARK: Plain text

    @Test(arguments: [false, true])
    func `a downgrade from https requires permission and drops secrets`(isAllowed: Bool) throws {
        let secure = try TrustedServer()
        secure.server.redirect("/start", to: second.url("/end").absoluteString, status: 307)
        var configuration = configuration
        configuration.allowsRedirectToPlainText = isAllowed
        var request = request(["Authorization", "X-Token", "Accept"])
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
        #expect(second.requests.first?.headers["Accept"] == "value of Accept")
    }

    // MARK: Exceptions

    @Test func `fields listed as exceptions are kept, except for Host`() throws {
        first.redirect("/start", to: second.url("/end").absoluteString)
        var configuration = configuration
        configuration.keepsHeadersAcrossOrigins = ["x-unknown", "AUTHORIZATION", "X-Token", "Host", "Referer"]
        var request = request(Self.secrets + Self.unknown)
        request.setValue("other.example", forHTTPHeaderField: "Host")
        request.setValue("http://h/x?y", forHTTPHeaderField: "Referer")
        let heard = try #require(load(request, configuration: configuration))
        let received = try #require(second.requests.first).headers
        for name in ["X-Unknown", "Authorization", "X-Token"] { #expect(received[name] == "value of \(name)") }
        for name in ["Cookie", "x-marked", "Idempotency-Key"] { #expect(received[name] == nil, "\(name)") }
        #expect(received["Host"] == "127.0.0.1:\(second.port)" && received["Referer"] == "http://h/x?y")
        #expect(heard.events.first?.shortensReferer == false)
    }

    @Test(arguments: ["Bearer t0ken", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln", "http://a:b@h/", "</?token=t>"])
    func `a harmless field with a secret value is removed`(value: String) throws {
        first.redirect("/start", to: second.url("/end").absoluteString)
        var request = URLRequest(url: first.url("/start"))
        request.setValue(value, forHTTPHeaderField: "Accept")
        let heard = try #require(load(request, configuration: configuration))
        #expect(second.requests.first?.headers["Accept"] == "*/*")
        #expect(heard.events.first?.removedFields.map(\.reason) == [.secretOfOtherOrigin])
    }

    // MARK: Bodies

    @Test(arguments: [("POST", 307), ("POST", 308), ("PUT", 301), ("PATCH", 302), ("DELETE", 307)])
    func `a body is not sent to another origin unless allowed`(method: String, status: Int) throws {
        first.redirect("/start", to: second.url("/end").absoluteString, status: status)
        let request = request(["Accept"], method: method, body: "s3cret")
        let heard = try #require(load(request, configuration: configuration))
        #expect(heard.error?.redirectRefusal == .bodyForOtherOrigin && heard.error?.code == .badServerResponse)
        #expect(heard.events.map(\.outcome) == [.refused(.bodyForOtherOrigin)])
        #expect(second.totalConnectionCount == 0)
        var configuration = configuration
        configuration.sendsBodiesAcrossOrigins = true
        #expect(try #require(load(request, configuration: configuration)).isFinished)
        #expect(second.requests.map(\.text) == ["s3cret"] && second.requests.map(\.method) == [method])
    }

    @Test func `a request without a body is redirected to another origin`() throws {
        for (method, status, body) in [("POST", 307, ""), ("POST", 302, "b"), ("PUT", 303, "b"), ("DELETE", 308, nil)] {
            first.redirect("/start", to: second.url("/end").absoluteString, status: status)
            #expect(try #require(load(request([], method: method, body: body), configuration: configuration)).isFinished)
        }
        #expect(second.requests.map(\.method) == ["POST", "GET", "GET", "DELETE"])
    }

    @Test(arguments: [
        ("http://h.test/a", "https://h.test/b", true), ("http://H.test:80/a", "https://h.TEST:443/b", true),
        ("http://h.test:81/a", "https://h.test/b", false), ("http://h.test/a", "https://h.test:8443/b", false),
        ("http://h.test/a", "https://i.test/b", false), ("http://h.test/a", "https://h.test./b", false),
    ])
    func `an upgrade to https on the same host keeps the body but drops secrets`(
        from: String, to: String, isUpgrade: Bool
    ) throws {
        var request = request(["Authorization", "X-Unknown", "X-Api-Key", "Accept"], method: "POST", body: "body")
        let base = try #require(URL(string: from))
        request.url = base
        let head = ResponseHead(url: base, statusCode: 307, headers: [("Location", to)])
        guard case .follow(let redirect) = RedirectRules(configuration).evaluate(head, to: request, followed: 0) else {
            Issue.record("The redirect was not followed.")
            return
        }
        #expect((redirect.bodyConsent == nil) == isUpgrade)
        #expect((redirect.request.value(forHTTPHeaderField: "X-Unknown") != nil) == isUpgrade)
        #expect(redirect.request.value(forHTTPHeaderField: "Authorization") == nil)
        #expect(redirect.request.value(forHTTPHeaderField: "X-Api-Key") == nil)
        #expect(redirect.request.value(forHTTPHeaderField: "Accept") != nil)
    }
}
