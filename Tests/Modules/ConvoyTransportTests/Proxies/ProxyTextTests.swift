import Foundation
import Testing

@testable import ConvoyTransport

/// Tests that proxies are parsed as in curl, and that no description contains the credential.
@Suite struct ProxyTextTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let text: String
        let kind: Proxy.Kind
        let host: String
        let port: Int
        var credential: ProxyCredential?
        var testDescription: String { text }

        init(
            _ text: String, _ kind: Proxy.Kind, _ host: String, _ port: Int, _ user: String? = nil, _ password: String = ""
        ) {
            self.text = text
            self.kind = kind
            self.host = host
            self.port = port
            credential = user.map { ProxyCredential(user: $0, password: password) }
        }
    }

    @Test(arguments: [
        Case("proxy.example", .http, "proxy.example", 1080),
        Case("proxy.example:3128", .http, "proxy.example", 3128),
        Case("ftp.example.com:3128", .http, "ftp.example.com", 3128),
        Case("http://proxy.example", .http, "proxy.example", 1080),
        Case("http://user:pass@proxy.example:8080/", .http, "proxy.example", 8080, "user", "pass"),
        Case("user:pass@proxy.example:8080", .http, "proxy.example", 8080, "user", "pass"),
        Case("http://user@proxy.example", .http, "proxy.example", 1080, "user"),
        Case("http://u%73er:p%40ss%3A%25@proxy.example", .http, "proxy.example", 1080, "user", "p@ss:%"),
        Case("http://:secret@proxy.example", .http, "proxy.example", 1080, "", "secret"),
        Case("HTTPS://proxy.example", .https, "proxy.example", 443),
        Case("https://[2001:db8::1]:8443", .https, "2001:db8::1", 8443),
        Case("http://[fe80::1%25eth0]:3128", .http, "fe80::1%eth0", 3128),
        Case("socks5h://127.0.0.1:9050", .socks5, "127.0.0.1", 9050),
        Case("socks5://127.0.0.1", .socks5ResolvingHere, "127.0.0.1", 1080),
        Case("socks4a://127.0.0.1", .socks4a, "127.0.0.1", 1080),
        Case("socks://127.0.0.1", .socks4, "127.0.0.1", 1080),
        Case("socks4://user@127.0.0.1", .socks4, "127.0.0.1", 1080, "user"),
        Case("http://0x7f.1:3128", .http, "127.0.0.1", 3128),
        Case("http://proxy.example:65535", .http, "proxy.example", 65535),
    ])
    func `a proxy is parsed as in curl`(_ expected: Case) throws {
        let proxy = try Proxy(expected.text)
        #expect(proxy.kind == expected.kind)
        #expect(proxy.host == expected.host)
        #expect(proxy.port == expected.port)
        #expect(proxy.credential == expected.credential)
        // A proxy created from its parts is equal, and so is the string for libcurl.
        #expect(try Proxy(proxy.kind, host: proxy.host, port: proxy.port, credential: proxy.credential) == proxy)
        let told = try Proxy(proxy.libcurlText)
        #expect(told.kind == proxy.kind && told.host == proxy.host && told.port == proxy.port)
        #expect(told.credential == (proxy.kind.isHTTP ? nil : proxy.credential))
    }

    @Test(arguments: [
        "", " ", "http://", "http://proxy.example:65536", "http://proxy.example:0", "http://proxy.example:x",
        "http://a b", "http://user:p%00@proxy.example", "http://user:p%0d%0aX@proxy.example", "http://[::1", "\u{0}",
        "http://user:%ff@proxy.example",
    ])
    func `an invalid URL is an error that does not repeat the text`(_ text: String) {
        expectError(.badURL, text)
    }

    @Test(arguments: ["ftp://secret:secret@proxy.example", "quic://secret.example", "socks5h://localhost/var/run/secret"])
    func `an unsupported scheme is an error`(_ text: String) {
        expectError(.unsupportedURL, text)
    }

    private func expectError(_ code: URLError.Code, _ text: String) {
        do {
            let proxy = try Proxy(text)
            Issue.record("\(proxy)")
        } catch {
            #expect(error.code == code)
            #expect(!"\(error) \(error.userInfo)".contains("secret"))
        }
    }

    @Test(arguments: ["", "a/b", "user@host", "a b", "a:b", "host:1"])
    func `a host with a delimiter is invalid`(_ host: String) {
        #expect(throws: URLError.self) { try Proxy(.http, host: host, port: 1) }
    }

    @Test func `a credential that cannot be sent is an error`() {
        for password in ["a\r\nb", "\u{7F}", "\u{0}"] {
            let credential = ProxyCredential(user: "user", password: password)
            #expect(throws: URLError.self) { try Proxy(.http, host: "a", credential: credential) }
        }
        let long = ProxyCredential(user: String(repeating: "x", count: 256), password: "")
        #expect(throws: URLError.self) { try Proxy(.socks5, host: "a", credential: long) }
        #expect(throws: Never.self) { try Proxy(.http, host: "a", credential: long) }
    }

    @Test func `descriptions do not contain the credential`() throws {
        let proxy = try Proxy("http://hidden-user:hidden-password@proxy.example:3128")
        var configuration = ConnectionConfiguration()
        configuration.proxy = .proxy(proxy)
        var dumped = ""
        for value: Any in [proxy, proxy.credential as Any, configuration.proxy, configuration] {
            dump(value, to: &dumped)
            dumped += "\(value) \(String(reflecting: value))"
        }
        #expect(dumped.contains("proxy.example"))
        #expect(!dumped.contains("hidden"))
        #expect(proxy.description == "http://proxy.example:3128")
    }
}
