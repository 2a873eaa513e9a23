import CCurl
import ConvoySecurity
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Pins, TLS, proxies, HSTS and cookies for all spellings of a scheme and a host.
@Suite struct SpellingTests {
    private let plain: TestServer

    init() throws {
        plain = try TestServer()
        plain.route(nil, "/x", .text("plain"))
    }

    private static func urls(_ schemes: [String], _ hosts: [String], _ port: UInt16, _ rest: String = "/x") throws -> [URL] {
        let urls = Spelling.urls(schemes, hosts, port: Int(port), rest).compactMap { URL(string: $0) }
        // Foundation parses only some of the spellings.
        #expect(urls.count >= 10)
        return urls
    }

    private func configuration(_ policy: SecurityPolicy = SecurityPolicy()) -> ConnectionConfiguration {
        var configuration = ConnectionConfiguration()
        configuration.proxy = .none
        configuration.securityPolicy = policy
        return configuration
    }

    private func load(_ url: URL, _ configuration: ConnectionConfiguration) throws -> Collector.Heard {
        let heard = ConvoyTransportTests.load(URLRequest(url: url), configuration: configuration)
        return try #require(heard)
    }

    /// Returns a policy that pins a key that no server has, either for one host or for all.
    private func pinned(_ hosts: String?, else policy: SecurityPolicy = SecurityPolicy()) throws -> SecurityPolicy {
        var pinned = SecurityPolicy()
        pinned.pinningMode = .publicKey
        pinned.certificateAuthorities = policy.certificateAuthorities
        pinned.publicKeyPins = [try PublicKeyPin("sha256/\(Data(repeating: 7, count: 32).base64EncodedString())")]
        guard let hosts else { return pinned }
        var policy = policy
        try policy.setPolicy(pinned, forHosts: hosts)
        return policy
    }

    // MARK: Pins

    @Test(arguments: [(Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost")])
    func `nothing is sent in plain text to a pinned host in any spelling`(hosts: [String], pattern: String) throws {
        for policy in [try pinned(nil), try pinned(pattern)] {
            for url in try Self.urls(Spelling.http, hosts, plain.port) {
                let heard = try load(url, configuration(policy))
                #expect(heard.error?.code == .appTransportSecurityRequiresSecureConnection, "\(url)")
            }
        }
        #expect(plain.statistics.totalConnectionCount == 0)
        // Without pins, the same URLs are reached, so that the test is meaningful.
        for url in try Self.urls(Spelling.http, hosts, plain.port) {
            #expect(try load(url, configuration()).text == "plain", "\(url)")
        }
        #expect(Set(plain.requests.map { $0.headers["Host"] }) == ["\(pattern):\(plain.port)"])
    }

    @Test func `nothing is sent in plain text to a pinned host after a redirect`() throws {
        let other = try TestServer()
        let policy = try pinned("127.0.0.1")
        for text in Spelling.urls(Spelling.http, Spelling.loopback, port: Int(plain.port), "/x") {
            var response = Data("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ".utf8)
            response += Data(text.utf8) + Data("\r\n\r\n".utf8)
            other.route("/start", .raw(response))
            let heard = try load(other.url("/start", host: "localhost"), configuration(policy))
            #expect(heard.error?.code == .appTransportSecurityRequiresSecureConnection, "\(text)")
        }
        #expect(plain.statistics.totalConnectionCount == 0)
        #expect(other.requests.count == Spelling.loopback.count)
    }

    @Test func `pins are checked over TLS for every spelling of the host`() throws {
        let trusted = try TrustedServer()
        for (hosts, pattern) in [(Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost")] {
            for url in try Self.urls(Spelling.https, hosts, trusted.server.port, "/") {
                #expect(try load(url, configuration(trusted.policy())).text == "hello", "\(url)")
                let heard = try load(url, configuration(pinned(pattern, else: trusted.policy())))
                #expect(heard.refusal == .notPinned, "\(url): \(heard.ends)")
            }
        }
    }

    // MARK: TLS, redirects, HSTS

    @Test func `https is never downgraded, regardless of the spelling of http`() throws {
        let trusted = try TrustedServer()
        for text in Spelling.urls(Spelling.http, Spelling.loopback, port: Int(plain.port), "/x") {
            let ascii = try #require(URLReference.url(text)).absoluteString
            trusted.server.redirect("/start", to: ascii)
            for url in try Self.urls(Spelling.https, Spelling.localhost, trusted.server.port, "/start").prefix(2) {
                let heard = try load(url, configuration(trusted.policy()))
                #expect(heard.error?.redirectRefusal == .plainText, "\(text)")
            }
        }
        #expect(plain.statistics.totalConnectionCount == 0)
    }

    @Test func `HSTS applies to every spelling of a host and is accepted only over TLS`() throws {
        let trusted = try TrustedServer()
        let field = "Strict-Transport-Security"
        for text in Spelling.urls(Spelling.http, Spelling.localhost, port: Int(trusted.server.port), "/") {
            guard let url = URL(string: text) else { continue }
            var configuration = configuration(try trusted.policy())
            configuration.hsts = HSTSStore()
            configuration.hsts?.note("max-age=1000", fromHost: "localhost")
            let heard = try load(url, configuration)
            #expect(heard.text == "hello", "\(url): \(heard.ends)")
            #expect(heard.heads.first?.url.scheme == "https")
        }
        plain.route("/x", .text("plain").header(field, "max-age=1000"))
        trusted.server.route("/", .text("hello").header(field, "max-age=1000"))
        for url in try Self.urls(Spelling.http, Spelling.localhost, plain.port) {
            var configuration = configuration()
            configuration.hsts = HSTSStore()
            #expect(try load(url, configuration).text == "plain", "\(url)")
            #expect(configuration.hsts?.hosts.isEmpty == true, "\(url)")
        }
        for url in try Self.urls(Spelling.https, Spelling.localhost, trusted.server.port, "/") {
            var configuration = configuration(try trusted.policy())
            configuration.hsts = HSTSStore()
            #expect(try load(url, configuration).text == "hello", "\(url)")
            #expect(configuration.hsts?.hosts.map(\.name) == ["localhost"], "\(url)")
        }
    }

    // MARK: Proxies

    @Test func `the proxy request is the same for every spelling of the target`() throws {
        let proxy = try TestServer()
        proxy.route(nil, "/*", .text("by proxy"))
        let address = try Proxy(.http, host: "127.0.0.1", port: Int(proxy.port))
        for (hosts, name) in [(Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost")] {
            for url in try Self.urls(Spelling.http, hosts, plain.port) {
                var configuration = configuration()
                configuration.proxy = .proxy(address)
                #expect(try load(url, configuration).text == "by proxy", "\(url)")
                configuration.proxy = .proxy(address, except: [name])
                #expect(try load(url, configuration).text == "plain", "\(url)")
            }
            let targets = Set(proxy.requests.map(\.target))
            #expect(targets.contains("http://\(name):\(plain.port)/x"))
        }
        #expect(Set(proxy.requests.map(\.target)).count == 2)
    }

    @Test func `all spellings of a proxy refer to the same proxy`() throws {
        let proxy = try TestServer()
        proxy.route(nil, "/*", .text("by proxy"))
        for text in Spelling.urls(Spelling.http, Spelling.localhost + Spelling.loopback, port: Int(proxy.port), "") {
            // The proxy is set in libcurl's own format.
            guard text.utf8.allSatisfy({ $0 < 0x80 }), !text.contains("%C2"), !text.contains("%EF") else { continue }
            let made = try Proxy(text)
            #expect(made.kind == .http && made.port == Int(proxy.port), "\(text)")
            #expect(made.host == made.host.lowercased(), "\(text)")
            if text.contains("0.1.") || text.contains("0x7f.1.") { continue }
            var configuration = configuration()
            configuration.proxy = .proxy(made)
            let url = try #require(URL(string: "HTTP://known-to-the-proxy.INVALID/x"))
            #expect(try load(url, configuration).text == "by proxy", "\(text)")
        }
        #expect(Set(proxy.requests.map(\.target)) == ["http://known-to-the-proxy.invalid/x"])
    }

    // MARK: The rest

    @Test func `all spellings of a host share cookies, credentials and overrides`() throws {
        for (hosts, name) in [
            (Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost"), (Spelling.loopback6, "[::1]"),
            (Spelling.mapped, "[::ffff:127.0.0.1]"), (Spelling.international, "xn--bcher-kva.example"),
        ] {
            for (schemes, isSecure) in [(Spelling.http, false), (Spelling.https, true)] {
                let server = AuthenticatingServer(scheme: isSecure ? "https" : "http", host: name, port: 81)
                for text in Spelling.urls(schemes, hosts, port: 81, "/a/../b?c") {
                    let address = try #require(HTTPAddress(text))
                    let cookies = try #require(CookieTarget(address, keepingDotSegments: false))
                    #expect(cookies.host == name && cookies.path == "/b" && cookies.isSecure == isSecure, "\(text)")
                    #expect(AuthenticatingServer(address.target) == server, "\(text)")
                    let route = try #require(try configuration().routed(to: address.target, by: "\(name):81"), "\(text)")
                    #expect(route == "::10.0.0.1:", "\(text)")
                }
            }
        }
    }

    @Test func `libcurl parses the same target as Convoy`() throws {
        let pieces = [
            "a", "B", "é", "0x7f", "127", ".", ".", ".1", "%41", "%2e", "%00", "%2F", "@", ":", ":80", ":0080", "[::1]",
            "[FE80::1%25lo]", "[", "]", "/", "\\", "?", "#", "\t", " ", "．", "／", "＠", "-", "_", "~", "!", "'", "１",
            "\u{301}", "ß", "xn--", "localhost", "0", "00", "4294967295", "256",
        ]
        var random = SplitMix64.printingSeed()
        var count = 0
        for _ in 0..<20_000 {
            let rest = (0..<Int.random(in: 1...6, using: &random))
                .map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            let scheme = (Spelling.http + Spelling.https).randomElement(using: &random) ?? ""
            guard let address = HTTPAddress("\(scheme)://\(rest)") else { continue }
            let handle = curl_url()
            defer { curl_url_cleanup(handle) }
            guard curl_url_set(handle, CURLUPART_URL, address.text, 0) == CURLUE_OK else { continue }
            func part(_ part: CURLUPart, _ flags: Int32 = 0) -> String? {
                var text: UnsafeMutablePointer<CChar>?
                guard curl_url_get(handle, part, &text, UInt32(flags)) == CURLUE_OK, let text else { return nil }
                defer { curl_free(text) }
                return String(cString: text)
            }
            let target = address.target
            count += 1
            #expect(part(CURLUPART_SCHEME) == target.scheme && part(CURLUPART_HOST) == target.host, "\(rest)")
            #expect(part(CURLUPART_PORT, CURLU_DEFAULT_PORT) == "\(target.port)" && part(CURLUPART_USER) == nil, "\(rest)")
            #expect(part(CURLUPART_ZONEID) == target.zone, "\(rest)")
        }
        #expect(count > 1_000)
    }

    @Test(arguments: [
        ("http://user@h/", URLError.Code.badURL), ("HTTP://user:pw@127.0.0.1/", .badURL), ("http://@h/", .badURL),
        ("FTP://h/", .unsupportedURL), ("http:///x", .badURL), ("http:/h", .badURL), ("//h/", .badURL),
        ("http://h:65536/", .badURL), ("http://h%00.example/", .badURL), ("http://h%2Fevil/", .badURL),
    ])
    func `a URL without a target is rejected before anything is sent`(text: String, code: URLError.Code) throws {
        let url = try #require(URL(string: text))
        for policy in [SecurityPolicy(), try pinned(nil)] {
            #expect(try load(url, configuration(policy)).error?.code == code, "\(text)")
        }
    }
}

extension ConnectionConfiguration {
    /// Returns the address to which an override for a host routes connections to a target.
    fileprivate func routed(to target: Target, by host: String) throws -> String? {
        var configuration = self
        configuration.addressOverrides = [host: "10.0.0.1"]
        return configuration.fixedAddress(for: target)
    }
}
