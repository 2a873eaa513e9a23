import ConvoyCache
import ConvoyCookies
import ConvoySerialization
import ConvoyTestServer
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Tests that folded fields (RFC 9112, section 5.2) have the same effect as fields on a single line.
@Suite struct FoldedFieldTests: CachingSuite {
    let fixture: CachingFixture

    init() throws { fixture = try CachingFixture() }

    /// Returns a response with a field on one line or folded at each of its spaces, with and without a fold after the
    /// colon.
    private static func forms(_ name: String, _ value: String, status: Int = 200) -> [TestServer.Response] {
        ["", "\r\n ", "\r\n\t\r\n "].map { fold in
            let folded = fold.isEmpty ? value : fold + value.replacingOccurrences(of: " ", with: fold)
            return TestServer.Response.text("body", status: status).header(name, folded)
        }
    }

    @Test(arguments: [("max-age=100, no-store", 3), ("max-age=100, no-cache", 3), ("private, max-age=100", 1)])
    func `a folded Cache-Control field controls storing`(value: String, count: Int) async throws {
        for (index, response) in Self.forms("Cache-Control", value).enumerated() {
            server.route("/\(index)", response)
            for _ in 0..<3 { #expect(try await get("\(index)").responseString == "body") }
            #expect(server.requests.count { $0.path == "/\(index)" } == count, "form \(index)")
        }
    }

    @Test func `a folded Vary selects the stored response`() async throws {
        for (index, response) in Self.forms("Vary", "Accept, Accept-Language").enumerated() {
            server.route("/\(index)", response.header("Cache-Control", "max-age=100"))
            for language in ["en", "en", "de"] {
                try await get("\(index)") { $0.setValue(language, forHTTPHeaderField: "Accept-Language") }
            }
            #expect(server.requests.count { $0.path == "/\(index)" } == 2, "form \(index)")
        }
    }

    @Test func `the folded fields of a stored response are unfolded`() async throws {
        for (index, response) in Self.forms("X-Note", "a b: c").enumerated() {
            server.route("/\(index)", response.header("Cache-Control", "max-age=100"))
            for _ in 0..<2 {
                let operation = try await get("\(index)")
                #expect(operation.response?.value(forHTTPHeaderField: "X-Note") == "a b: c", "form \(index)")
            }
            #expect(server.requests.count { $0.path == "/\(index)" } == 1, "form \(index)")
        }
    }

    @Test func `a folded cookie keeps its attributes`() async throws {
        let store = CookieStore()
        manager.cookieStore = store
        for (index, response) in Self.forms("Set-Cookie", "a=b; Path=/elsewhere; HttpOnly").enumerated() {
            store.removeAll()
            server.route("/\(index)", response)
            try await get("\(index)")
            let cookie = try #require(store.cookies.first)
            #expect(store.cookies.count == 1 && cookie.name == "a" && cookie.value == "b", "form \(index)")
            #expect(cookie.path == "/elsewhere" && cookie.isHTTPOnly, "form \(index)")
        }
    }

    @Test func `a folded challenge is answered`() async throws {
        manager.credential = URLCredential(user: "u", password: "p", persistence: .none)
        let value = "Digest realm=\"x\", nonce=\"abc\", qop=\"auth\", algorithm=MD5"
        for (index, response) in Self.forms("WWW-Authenticate", value, status: 401).enumerated() {
            server.route("/\(index)") { request in
                guard let field = request.authorizations.first else { return response }
                return .text(String(field.prefix(7)))
            }
            #expect(try await get("\(index)").responseString == "Digest ", "form \(index)")
        }
    }

    @Test func `a folded media type is accepted`() async throws {
        manager.responseSerializer = JSONResponseSerializer()
        for (index, value) in ["application/json;\r\n charset=utf-8", "\r\n application/json"].enumerated() {
            server.route("/\(index)", .bytes(Data("{}".utf8), type: value))
            #expect(try await get("\(index)").error == nil, "form \(index)")
        }
    }
}
