import CCurl
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that the target of a `Location` is requested exactly as specified, and never from another host.
@Suite struct ReferenceTests {
    let server: TestServer
    var host: String { "127.0.0.1:\(server.port)" }

    init() throws { server = try TestServer() }

    /// Returns the request after a redirect from `/dir/?start`, or the error.
    private func follow(_ location: [UInt8]) throws -> (target: String?, error: URLError?) {
        var response = Data("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: ".utf8)
        response += location + Data("\r\n\r\n".utf8)
        let redirect = TestServer.Response.raw(response)
        server.route("/dir/") { request in request.query == "start" ? redirect : .text("there") }
        let before = server.requests.count
        let heard = try #require(load(server.url("/dir/?start")))
        let requests = server.requests.dropFirst(before)
        #expect(requests.first?.target == "/dir/?start" && requests.count <= 2)
        return (requests.count == 2 ? requests.last?.target : nil, heard.error)
    }

    @Test(arguments: ReferenceCase.all) func `a Location is resolved as specified by the RFC`(given: ReferenceCase) throws {
        let location = Array(given.reference(to: host).utf8)
        let (target, error) = try follow(location)
        // Programs may use such a reference, but it is rejected if a server sends it.
        let expected = location.contains { $0 < 0x20 || $0 == 0x7F } ? nil : given.target
        #expect(target == expected)
        #expect((error == nil) == (expected != nil), "\(String(describing: error))")
        if expected == nil { #expect(error?.code == .badServerResponse) }
    }

    @Test(arguments: [
        ("a\u{FF}b", "/dir/a%FFb"), ("?\u{E9}=%20 ", "/dir/?%E9=%20"), ("\u{E2}\u{98}\u{83}", "/dir/%E2%98%83"),
        ("\u{E2}\u{98} \u{FF}%E2", "/dir/%E2%98%20%FF%E2"),
    ])
    func `non-ASCII bytes are sent back unchanged`(location: String, target: String) throws {
        #expect(try follow(location.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }).target == target)
    }

    @Test(arguments: ["#x", "", "?start#é"]) func `a redirect to itself is an error`(
        location: String
    ) throws {
        server.route("/dir/", .redirect(to: location))
        let code = load(server.url("/dir/?start"))?.error?.code
        #expect(code == (location.isEmpty ? .badServerResponse : .httpTooManyRedirects))
        #expect(server.requests.allSatisfy { $0.target == "/dir/?start" })
    }

    @Test(arguments: [("/b?%20 ", "%20%C3%A9%25"), ("/b?%20#own", "own")])
    func `a fragment is inherited unchanged, unless the Location has one`(location: String, fragment: String) throws {
        server.redirect("/a", to: location)
        server.route("/b", .text("there"))
        let heard = try #require(load(server.url("/a#%20é%")))
        #expect(heard.heads.first?.url.absoluteString == "http://\(host)/b?%20#\(fragment)")
    }

    // MARK: libcurl

    /// Returns the host to which libcurl would connect; nil for a URL that it rejects.
    private func hostOfCurl(_ url: String) -> String? {
        let handle = curl_url()
        defer { curl_url_cleanup(handle) }
        guard curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK else { return nil }
        var part: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, CURLUPART_HOST, &part, 0) == CURLUE_OK, let part else { return nil }
        defer { curl_free(part) }
        return String(cString: part)
    }

    @Test(arguments: [
        "http://bücher.example/ä%20 b", "http://b%C3%BCcher.example", "http://a%2Eb", "http://u:p@h:80/x", "http://u@v@h/",
        "http://[::1]:80/", "http://h:/x", "http://h?@x/", "http://h#@x/", "http://h/@x", "http://h/\\@x/", "http://日本。jp/a",
        "//h/x", "/x", "x", "\\\\evil.example/", "/\\evil.example/", "?//evil.example", "http://a_b/", "http://faß.de",
        "http://0x7f.1/", "http://2130706433/", "http://0177.1:80/x", "http://1.2.3.4", "http://1.2.3.4.5", "http://80",
    ])
    func `libcurl parses the same host`(reference: String) throws {
        let url = try #require(URLReference.url(reference, relativeTo: URL(string: "http://base.example/a/b")))
        let bracketed = try #require(url.host).contains(":") ? "[\(url.host ?? "")]" : url.host
        #expect(hostOfCurl(url.absoluteString) == bracketed)
    }

    @Test func `libcurl parses the same host from random references`() throws {
        let pieces = [
            "http:", "https:", "//", "/", "\\", "..", ".", "a", "é", "%", "%41", "%2e", "%2F", "?", "#", "@", ":", "80",
            "[", "]", "[::1]", "evil.example", " ", "\t", "\n", "\u{7F}", "|", "{", "\"", ";", "&", "．", "／", "＠",
        ]
        let base = URL(string: "http://base.example/a/b")
        var random = SplitMix64.printingSeed()
        for _ in 0..<5_000 {
            let reference = (0..<Int.random(in: 1...8, using: &random))
                .map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            // URLs that libcurl rejects are not requested.
            guard let url = URLReference.url(reference, relativeTo: base), let scheme = url.scheme?.lowercased(),
                ["http", "https"].contains(scheme), let host = hostOfCurl(url.absoluteString)
            else { continue }
            #expect(host.trimmingCharacters(in: ["[", "]"]) == url.host, "\(reference.debugDescription): \(url)")
        }
    }

    // MARK: Web platform tests

    private struct Suite: Decodable {
        struct Escape: Decodable {
            struct Case: Decodable {
                var location: String
                var urlEndsWith: String
            }
            var cases: [Case]
        }
        struct Location: Decodable {
            var status: Int
            var location: String?
            var expect: String
        }
        var escape: Escape
        var location: [Location]
    }

    @Test(.enabled(if: ConformanceSuite.directory("redirects") != nil, "\(ConformanceSuite.hint("redirects"))"))
    func `locations from the web platform tests lead to the same URLs as in browsers`() throws {
        let directory = try #require(ConformanceSuite.directory("redirects"))
        let suite = try JSONDecoder().decode(
            Suite.self, from: Data(contentsOf: directory.appendingPathComponent("wpt-fetch.json")))
        for given in suite.escape.cases {
            let bytes = given.location.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
            // Browsers keep a % that encodes nothing. Servers then reject or guess its meaning.
            let expected = given.urlEndsWith.split(separator: "%%", omittingEmptySubsequences: false).joined(
                separator: "%25%")
            let (target, error) = try follow(bytes)
            #expect(target == "/dir/\(expected)" && error == nil)
        }
        for given in suite.location {
            guard let location = given.location else {
                server.route("/none", .status(given.status))
                #expect(load(server.url("/none"))?.heads.map(\.statusCode) == [given.status])
                continue
            }
            let (target, error) = try follow(Array(location.utf8))
            #expect(target == (given.expect == "error" ? nil : "/dir/\(location)"))
            #expect((error != nil) == (given.expect == "error"), "\(location)")
        }
        #expect(try follow([]).error?.code == .badServerResponse)
    }
}
