import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// The web platform tests of redirects, except for locations, which are covered by `ReferenceTests`.
@Suite(.enabled(if: ConformanceSuite.directory("redirects") != nil, "\(ConformanceSuite.hint("redirects"))"))
struct RedirectConformanceTests {
    private struct Suite: Decodable {
        struct Method: Decodable {
            var status: Int
            var method: String
            var requestBody: String?
            var requestHeaders: [String: String]
            var methodAfter: String
            var bodyAfter: String
            var entityHeadersKept: Bool
        }
        struct Count: Decodable {
            var status: Int
            var redirects: Int
            var expect: String
        }
        var method: [Method]
        var count: [Count]
    }

    private let suite: Suite
    private let server: TestServer

    init() throws {
        let directory = try #require(ConformanceSuite.directory("redirects"))
        suite = try JSONDecoder().decode(
            Suite.self, from: Data(contentsOf: directory.appendingPathComponent("wpt-fetch.json")))
        server = try TestServer()
        server.route(nil, "/end", .text("there"))
    }

    @Test func `methods, bodies and their fields are handled as in browsers`() throws {
        #expect(suite.method.count == 14)
        for given in suite.method {
            server.forgetRequests()
            server.redirect("/start", to: "/end", status: given.status)
            var request = URLRequest(url: server.url("/start"))
            request.httpMethod = given.method
            request.httpBody = given.requestBody.map { Data($0.utf8) }
            request.allHTTPHeaderFields = given.requestHeaders
            let heard = try #require(load(request))
            let last = try #require(server.requests("/end").first)
            #expect(heard.isFinished && last.method == given.methodAfter && last.text == given.bodyAfter, "\(given)")
            for (name, value) in given.requestHeaders {
                #expect(last.headers[name] == (given.entityHeadersKept ? value : nil), "\(name) of \(given)")
            }
            let event = try #require(heard.events.first)
            #expect(event.previousMethod == given.method && event.method == given.methodAfter)
            let body: RedirectEvent.BodyOutcome = given.bodyAfter.isEmpty ? .dropped : .sentAgain
            #expect(event.body == (given.requestBody == nil ? .none : body))
            #expect(event.removedFields.allSatisfy { $0.reason == .describesBody })
            #expect(event.removedFields.isEmpty == given.entityHeadersKept)
        }
    }

    @Test func `twenty redirects are followed, but not twenty-one`() throws {
        #expect(suite.count.count == 10)
        for given in suite.count {
            server.forgetRequests()
            for number in 0..<given.redirects {
                let next = number + 1 == given.redirects ? "/end" : "/\(number + 1)"
                server.redirect("/\(number)", to: next, status: given.status)
            }
            let heard = try #require(load(server.url("/0")))
            if given.expect == "error" {
                #expect(heard.error?.code == .httpTooManyRedirects, "\(given)")
            } else {
                #expect(heard.heads.map(\.statusCode) == [200] && heard.text == "there", "\(given)")
            }
        }
    }
}
