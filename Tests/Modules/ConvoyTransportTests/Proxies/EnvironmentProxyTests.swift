import ConvoySupport
import ConvoyTestSupport
import Foundation
import XCTest

@testable import ConvoyTransport

/// The proxy that the environment specifies for a URL. The tests use XCTest, which runs them serially, because they
/// share the environment.
final class EnvironmentProxyTests: XCTestCase {
    private static let names = [
        "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
    ]

    /// Returns the proxies for http and https to a host, with only these variables set.
    private func proxies(_ variables: [String: String], for host: String = "example.com") throws -> [String?] {
        try withEnvironment(Dictionary(uniqueKeysWithValues: Self.names.map { ($0, variables[$0] ?? "") })) {
            try [false, true].map { isSecure in
                try ProxySelection.environment.proxy(isSecure: isSecure, host: host)?.description
            }
        }
    }

    func testEachVariableCountsForItsScheme() throws {
        let cases: [([String: String], [String?])] = [
            ([:], [nil, nil]),
            (["http_proxy": "a:1"], ["http://a:1", nil]),
            // This variable is ignored, because the client of a web server could set it.
            (["HTTP_PROXY": "a:1"], [nil, nil]),
            (["https_proxy": "a:1"], [nil, "http://a:1"]),
            (["HTTPS_PROXY": "a:1"], [nil, "http://a:1"]),
            (["https_proxy": "a:1", "HTTPS_PROXY": "b:2"], [nil, "http://a:1"]),
            (["all_proxy": "a:1"], ["http://a:1", "http://a:1"]),
            (["ALL_PROXY": "socks5h://a:1"], ["socks5h://a:1", "socks5h://a:1"]),
            (["all_proxy": "a:1", "ALL_PROXY": "b:2"], ["http://a:1", "http://a:1"]),
            (["http_proxy": "a:1", "https_proxy": "https://b", "all_proxy": "c:3"], ["http://a:1", "https://b:443"]),
            (["HTTPS_PROXY": "a:1", "ALL_PROXY": "b:2"], ["http://b:2", "http://a:1"]),
        ]
        for (variables, expected) in cases { XCTAssertEqual(try proxies(variables), expected, "\(variables)") }
    }

    func testExceptionsAreReachedDirectly() throws {
        let all = ["all_proxy": "a:1"]
        let through: [String?] = ["http://a:1", "http://a:1"]
        XCTAssertEqual(try proxies(all.merging(["no_proxy": "example.com"]) { $1 }), [nil, nil])
        XCTAssertEqual(try proxies(all.merging(["NO_PROXY": "example.com"]) { $1 }), [nil, nil])
        XCTAssertEqual(try proxies(all.merging(["no_proxy": "other", "NO_PROXY": "example.com"]) { $1 }), through)
        XCTAssertEqual(try proxies(all.merging(["no_proxy": "*"]) { $1 }), [nil, nil])
        XCTAssertEqual(try proxies(all.merging(["no_proxy": "10.0.0.0/8"]) { $1 }, for: "10.2.3.4"), [nil, nil])
        XCTAssertEqual(try proxies(all.merging(["no_proxy": "10.0.0.0/8"]) { $1 }), through)
    }

    func testAVariableThatIsNoProxyIsAnErrorThatDoesNotShowIt() throws {
        for (text, code) in [
            ("http://user:secret@", URLError.Code.badURL), ("gopher://user:secret@a", .unsupportedURL),
        ] {
            XCTAssertThrowsError(try proxies(["all_proxy": text])) { error in
                XCTAssertEqual((error as? URLError)?.code, code)
                XCTAssertFalse("\(error)".contains("secret"))
                XCTAssertTrue("\(error)".contains("environment"))
            }
        }
    }

    func testTheProxyIsThatOfTheTargetHoweverItIsWritten() throws {
        let variables = ["http_proxy": "A:1", "https_proxy": "HTTP://B:2", "no_proxy": "localhost,10.0.0.1"]
        func proxy(_ text: String) throws -> String? {
            try withEnvironment(Dictionary(uniqueKeysWithValues: Self.names.map { ($0, variables[$0] ?? "") })) {
                try ProxySelection.environment.proxy(for: try XCTUnwrap(Target(text)))?.description
            }
        }
        for text in Spelling.urls(Spelling.http, Spelling.loopback, port: 80, "/x") {
            XCTAssertEqual(try proxy(text), "http://a:1", text)
        }
        for text in Spelling.urls(Spelling.https, Spelling.loopback, port: 80, "/x") {
            XCTAssertEqual(try proxy(text), "http://b:2", text)
        }
        for text in Spelling.urls(Spelling.http + Spelling.https, Spelling.localhost, port: 80, "/x") {
            XCTAssertNil(try proxy(text), text)
        }
        for host in ["10.1", "0xa.1", "167772161", "%31%30.0.0.1", "10.0.0.1."] {
            XCTAssertNil(try proxy("HTTP://\(host)/"), host)
        }
    }

    func testAChangedVariableCountsForTheNextRequest() throws {
        XCTAssertEqual(try proxies(["http_proxy": "a:1"]), ["http://a:1", nil])
        XCTAssertEqual(try proxies(["http_proxy": "b:2"]), ["http://b:2", nil])
        XCTAssertEqual(try proxies([:]), [nil, nil])
    }

    func testAProxyOfOnesOwnOutweighsTheEnvironment() throws {
        let own = try Proxy("socks5h://own:9")
        try withEnvironment(["all_proxy": "a:1", "no_proxy": "*"]) {
            XCTAssertEqual(try ProxySelection.proxy(own).proxy(isSecure: false, host: "example.com"), own)
            XCTAssertNil(try ProxySelection.proxy(own, except: ["example.com"]).proxy(isSecure: true, host: "example.com"))
            XCTAssertEqual(
                try ProxySelection.proxy(own, except: ["10.0.0.0/8", ".b"]).proxy(isSecure: true, host: "example.com"), own)
        }
        try withEnvironment(["all_proxy": "a:1", "no_proxy": ""]) {
            XCTAssertNil(try ProxySelection.none.proxy(isSecure: true, host: "example.com"))
        }
    }
}
