import ConvoySerialization
import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Keys of requests for unusual bodies, fields, delays, pages and cookies.
@Suite struct RequestKeyTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        for method in ["GET", "HEAD", "POST"] { server.route(method, "/echo") { .text($0.text) } }
    }

    private func failure(_ text: String) throws -> String {
        let error = #expect(throws: ManifestError.self) { try bench.workflow(text) }
        return error?.description ?? ""
    }

    @Test func `a GET sends a body`() async throws {
        let finished = try await bench.run(
            """
            requests:
              a: {get: echo, json: {query: {match_all: {}}}, expect: ['body == ''{"query":{"match_all":{}}}''']}
              b: {get: echo, form: {a: 1}, output: out.txt, after: a}
              c: {get: echo, multipart: {a: b}, after: b}
              d: {head: echo, text: x, after: c}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(server.requests.map(\.method) == ["GET", "GET", "GET", "HEAD"])
        try #require(server.requests.count == 4)
        #expect(server.requests[1].text == "a=1" && server.requests[2].text.contains("name=\"a\""))
        #expect(try String(contentsOf: bench.directory.url.appendingPathComponent("out.txt"), encoding: .utf8) == "a=1")
        let draft = try #require(try CurlCommandLine.drafts("curl -X GET -d a=b a.test").first)
        #expect(draft.draft.method == "GET" && draft.draft.yaml(name: "a").contains("form: {\"a\":\"b\"}"))
    }

    @Test func `fields, items and parts are repeated in the given order`() async throws {
        let finished = try await bench.run(
            """
            requests:
              a:
                post: echo
                headers: {X-A: [1, two], Cookie: [a=1, b=2]}
                query: [{a: 1}, {b: [2, 3], a: 4}]
                form: [{x: 1}, {y: 2}, {x: 3}]
              b: {post: echo, multipart: [{p: one}, {q: two}, {p: {value: three, type: text/x}}], after: a}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        try #require(server.requests.count == 2)
        #expect(server.requests[0].headers["X-A"] == "1, two" && server.requests[0].headers["Cookie"] == "a=1; b=2")
        #expect(server.requests[0].target == "/echo?a=1&b=2&b=3&a=4" && server.requests[0].text == "x=1&y=2&x=3")
        let names = server.requests[1].text.matches(of: /name="(.)"/).map { String($0.1) }
        #expect(names == ["p", "q", "p"])
    }

    @Test func `a delay precedes each item`() async throws {
        let clock = ContinuousClock.now
        let finished = try await bench.run(
            "defaults: {delay: 60ms}\nrequests:\n  a: {forEach: [1, 2], parallel: 1, get: echo}\n  b: {get: echo, delay: 0, after: a}"
        )
        #expect(finished.result.failures.isEmpty)
        #expect(ContinuousClock.now - clock >= .milliseconds(120))
        #expect(finished.log.filter { $0.hasPrefix("waiting") } == ["waiting a[1]", "waiting a[2]"])
    }

    @Test func `polls slow down and respect Retry-After`() async throws {
        let times = Locked<[ContinuousClock.Instant]>([])
        server.route("/job") { _ in
            let count = times.withLock { times in
                times.append(.now)
                return times.count
            }
            var response = TestServer.Response.text(count < 4 ? "wait" : "done")
            if count == 3 { response.headers["Retry-After"] = "1" }
            return response
        }
        let finished = try await bench.run(
            "requests: {a: {get: job, poll: {until: body == 'done', every: 20ms, backoff: 3, for: 10s}}}")
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        let seen = times.withLock { $0 }
        try #require(seen.count == 4)
        #expect(seen[2] - seen[1] >= .milliseconds(60) && seen[3] - seen[2] >= .seconds(1))
        let late = try await bench.run("requests: {a: {get: late, poll: {until: status == 200, every: 1ms, for: 100ms}}}")
        #expect(try late.failure("a").hasPrefix("poll: until was not true within 0.1 s"))
    }

    @Test(
        arguments: [
            (#"<PAGE>; rel="next""#, true), (#"<x>; rel=prev, <PAGE>; title="a, b; rel=next"; rel=next"#, true),
            (#"<PAGE>; rel="last next""#, true), (#"<PAGE>;REL=next"#, true), (#"<PAGE>; rel=nextish"#, false),
            (#"<PAGE>; title="rel=next""#, false), ("", false),
        ]) func `follow finds the next page in a Link field`(_ field: String, _ isFound: Bool) async throws
    {
        server.route("/list") { request in
            var response = TestServer.Response.json(["n": request.target.hasSuffix("2") ? 2 : 1])
            if !request.target.hasSuffix("2") { response.headers["Link"] = field.replacing("PAGE", with: "/list?page=2") }
            return response
        }
        let finished = try await bench.run("requests: {a: {get: list, follow: link:next, capture: {n: json:/n}}}")
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(try finished.outcome("a").captures.first?.value == (isFound ? "[1,2]" : "[1]"))
    }

    @Test func `cookies of the defaults are sent from the start`() async throws {
        server.route("/set") { _ in
            var response = TestServer.Response.text("x")
            response.headers["Set-Cookie"] = "session=new; Path=/"
            return response
        }
        let finished = try await bench.run(
            """
            variables: {s: first-session}
            defaults: {cookies: {session: "${s}", lang: en}}
            requests: {a: {get: set}, b: {get: echo, after: a, expect: [cookies.session == 1]}}
            """)
        try #require(server.requests.count == 2)
        #expect(server.requests[0].headers["Cookie"] == "session=first-session; lang=en")
        #expect(server.requests[1].headers["Cookie"]?.contains("session=new") == true)
        #expect(try !finished.failure("b").contains("session=first"))
        #expect(finished.run.secrets.masked("x first-session") == "x ***")
    }

    @Test(
        arguments: [
            ("requests: {a: {get: x, poll: {until: true, backoff: 0}}}", "backoff must be a number from 1 to 100"),
            ("requests: {a: {get: x, follow: 'link:'}}", "invalid link relation"),
            ("requests: {a: {get: x, follow: link}}", "link: requires"),
            ("requests: {a: {get: x, delay: x}}", "delay must be a number of seconds"),
            ("defaults: {cookies: {a: 'b;c'}}\nrequests: {a: {get: x}}", "invalid cookie \"a\""),
            ("requests: {a: {get: x, form: [1]}}", "an element of form must be a mapping"),
            ("requests: {a: {get: x, headers: {A: [{b: 1}]}}}", "a header must be text"),
        ]) func `a wrong value of a key is found`(_ text: String, _ message: String) throws
    {
        #expect(try failure(text).contains(message))
    }
}
