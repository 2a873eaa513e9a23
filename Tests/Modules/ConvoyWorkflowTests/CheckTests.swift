import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Expressions as expectations, and the messages of those that are not met.
@Suite struct CheckTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        server.route(
            "/item",
            .json(
                text: """
                    {"id": 7, "name": "Ada", "tags": ["a", "b"], "password": "hunter22", "user": {"name": "Ada", "age": 36},
                     "text": "the quick brown fox jumps over the lazy dog\\nand runs"}
                    """))
    }

    /// The failures of a request with these checks, each with its position.
    private func failures(_ checks: String, secrets: String = "", more: String = "") async throws -> [String] {
        let finished = try await bench.run("\(secrets)requests:\n  a:\n    get: item\n\(more)    expect:\n\(checks)")
        return try finished.outcome("a").locatedFailures
    }

    @Test func `checks are combined with the other forms`() async throws {
        let finished = try await bench.run(
            """
            variables: {wanted: 7}
            requests:
              a:
                get: item
                capture: {id: json:/id}
                expect:
                  - status == 200
                  - {type: application/json, json: {/name: Ada}}
                  - a.id == wanted
                  - |
                    json.tags | count == 2
                    and "a" in json.tags
              b: {get: item, expect: [a.id == json.id, "json.name == ${a.id} or true"]}
            """)
        #expect(finished.states == ["a": "succeeded", "b": "succeeded"], "\(finished.result.failures.map(\.failures))")
    }

    @Test(
        arguments: [
            ("json.id == 8", "json.id == 8\nactual:   7 (number)\nexpected: 8 (number)"),
            (#"json.id == "7""#, "json.id == \"7\"\nactual:   7 (number)\nexpected: \"7\" (string)"),
            ("json.nope == 1", "json.nope == 1\nactual:   missing (\"nope\" is not in the object)\nexpected: 1 (number)"),
            ("json.tags | count > 2", "json.tags | count > 2\nactual:   2 (number)\nexpected: > 2 (number)"),
            ("json.id isString", "json.id isString\nactual:   7 (number)\nexpected: a string"),
            ("json.id not exists", "json.id not exists\nactual:   7 (number)\nexpected: no value"),
            ("not json.id == 7", "not json.id == 7\nactual:   7 (number)\nexpected: not 7 (number)"),
            ("json.empty", "json.empty\nactual:   missing (\"empty\" is not in the object)\nexpected: a true value"),
            (
                "json.name == \"Bob\" or json.id > 7",
                """
                json.name == "Bob" or json.id > 7
                json.name == "Bob"
                  actual:   "Ada" (string)
                  expected: "Bob" (string)
                json.id > 7
                  actual:   7 (number)
                  expected: > 7 (number)
                """
            ),
            (
                "json.id > \"a\"",
                "json.id > \"a\"\n> compares two numbers, two strings or two dates\nactual:   7 (number)\nexpected: > \"a\" (string)"
            ),
            (
                "json.user == {name: 'Ada', age: 37, admin: true}",
                """
                json.user == {name: 'Ada', age: 37, admin: true}
                actual:   {"name":"Ada","age":36} (object)
                expected: {"name":"Ada","age":37,"admin":true} (object)
                /age: 36, expected 37
                /admin: missing, expected true
                """
            ),
            (
                "json.text == 'the quick brown cat jumps over the lazy dog'",
                """
                json.text == 'the quick brown cat jumps over the lazy dog'
                actual:   "the quick brown fox jumps over the lazy dog\\nand runs" (string)
                expected: "the quick brown cat jumps over the lazy dog" (string)
                they differ at line 1, column 17: "ick brown fox jumps over the lazy dog\\nan", expected "ick brown cat jumps over the lazy dog"
                """
            ),
            ("xpath('//a') isEmpty", "xpath('//a') isEmpty\nthe body is not XML"),
            (
                "headers.X-Nope startsWith 'a'",
                "headers.X-Nope startsWith 'a'\nactual:   missing\nexpected: startsWith \"a\" (string)"
            ),
            (
                "bytes == hex('00')",
                "bytes == hex('00')\nactual:   7b226964223a20372c20226e616d65223a2022416461222c… (170 bytes)\nexpected: 00 (1 byte)"
            ),
        ]) func `a failed check shows its source and values`(_ check: String, _ message: String) async throws
    {
        let quoted = check.replacing("'", with: "''")
        let found = try await failures("      - '\(quoted)'\n")
        #expect(found == ["m.yaml:6:10: " + message], "\(found)")
    }

    @Test func `secrets are masked in the source and the values`() async throws {
        let body = try await failures("      - json.password == 'wrong'\n      - body == 'x'\n      - json.user.age == 1\n")
        #expect(body.count == 3)
        #expect(!body.joined().contains("hunter22") && !body.joined().contains("wrong"), "\(body)")
        #expect(body[0].contains("json.password == ***"))
        #expect(body[2].contains("actual:   36 (number)"))
        let marked = try await failures(
            "      - json.name == 'x'\n      - 'body | regex(''name\": \"(.*?)\"'') == ''y'''\n      - a.n == 'Ada'\n      - a.n == 'z'\n",
            secrets: "secrets: [a.n]\n", more: "    capture: {n: json:/name}\n")
        #expect(marked.count == 3 && !marked.joined().contains("Ada"), "\(marked)")
        server.route("/cookie") { _ in
            var response = TestServer.Response.text("x")
            response.headers["Set-Cookie"] = "session=s3cr3tvalue; Path=/"
            response.headers["Authorization"] = "Bearer abcdefgh"
            return response
        }
        let finished = try await bench.run(
            "requests: {a: {get: cookie, expect: ['cookies.session == 1', 'headers.Authorization == 1', 'headers == 1']}}")
        let text = try finished.failure("a")
        #expect(!text.contains("s3cr3tvalue") && !text.contains("abcdefgh"), "\(text)")
    }

    @Test func `filters do not reveal parts of secrets`() async throws {
        let checks = [
            "env.CODE | lower == 'x'", "env.CODE | split('-') == ['x']", "env.CODE | toHex == 'x'",
            "[env.CODE | upper] == 1", "a.n | upper == 'x'", "json.name | upper == 'x'", "json | map(it | upper) == 1",
            "body | regex('(A.)a') == 'x'", "json.name | toInt == 1", "json.tags | map(env.CODE | lower) == 1",
        ]
        let failures = try await bench.run(
            """
            secrets: [env.CODE, a.n]
            requests:
              a: {get: item, capture: {n: json:/name}, expect: [\(checks.map { "\"\($0)\"" }.joined(separator: ", "))]}
            """, environment: ["CODE": "Open-Sesame"]
        ).outcome("a").failures
        #expect(failures.count == checks.count)
        for failure in failures {
            let values = failure.split(separator: "\n").dropFirst().joined().lowercased()
            #expect(!values.contains("open") && !values.contains("sesame") && !values.contains("ada"), "\(failure)")
            #expect(!values.contains("6f70656e") && !values.contains("\"ad"), "\(failure)")
        }
    }

    @Test(
        arguments: [
            ("      - json.id ==\n", "m.yaml:7:18: expect: the expression ends too early"),
            ("      - json.id = 1\n", "m.yaml:7:17: expect: unexpected \"=\"; use == to compare"),
            ("      - \"json.id \\x3d 1\"\n", "m.yaml:7:16: expect: unexpected \"=\"; use == to compare"),
            ("      - 'json.a = ''x'''\n", "m.yaml:7:17: expect: unexpected \"=\"; use == to compare"),
            (
                "      - |\n        json.a == 1\n        and json.b isNo\n",
                "m.yaml:9:20: expect: unknown predicate \"isNo\""
            ),
            ("      - nope.x == 1\n", "m.yaml:7:9: ${nope.x}: unknown request or variable \"nope\""),
            ("      - a.nope == 1\n", "m.yaml:7:9: \"a\" has no capture \"nope\""),
            ("      - a.status == 1\n", "m.yaml:7:9: a.status is not known before the end of \"a\"; write status"),
            (
                "      - ${json.id} == 1\n",
                "m.yaml:7:9: ${json.id}: unknown request or variable \"json\"; in expect and until, write json.id without ${…} for the response"
            ),
            ("      - {status: 200}\n      - {status: 201}\n", "m.yaml:8:10: \"status\" is given twice in expect"),
            (
                "      - json.a == \"b: c\"\n",
                "m.yaml:7:9: unknown key \"json.a == \"b\" in expect; quote an expression that contains \": \""
            ),
            ("      - 7\n", "m.yaml:7:9: expect must be text, not a number"),
        ]) func `a mistake in a check is found before anything is sent`(_ checks: String, _ message: String) throws
    {
        let error = #expect(throws: ManifestError.self) {
            try bench.workflow("requests:\n  a:\n    get: item\n\n    expect:\n\(checks)")
        }
        #expect(error?.description == message)
    }

    @Test func `an expression about the status replaces the default`() async throws {
        server.route("/gone", .text("gone", status: 410))
        let finished = try await bench.run(
            """
            requests:
              a: {get: gone, expect: [status == 410]}
              b: {get: gone, expect: [body == "gone"]}
              c: {get: gone, expect: ['status in [404, 410]'], output: c.txt}
              d: {get: item, expect: [status == 200, json.id == 8], output: d.json}
              e: {get: gone, expect: [status == 200], output: e.txt}
              f: {post: item, expect: [status == 201], output: f.txt}
            """)
        #expect(
            finished.states == [
                "a": "succeeded", "b": "failed", "c": "succeeded", "d": "failed", "e": "failed", "f": "failed",
            ])
        let files = try FileManager.default.contentsOfDirectory(atPath: bench.directory.url.path)
        #expect(files == ["c.txt"])
    }

    @Test func `redirects, the last URL and the address can be checked`() async throws {
        server.route("/old", .redirect(to: "/older", status: 301))
        server.route("/older", .redirect(to: "/item"))
        let finished = try await bench.run(
            """
            requests:
              a:
                get: old
                expect:
                  - redirects | count == 2
                  - redirects[0].status == 301 and redirects[0].location endsWith "/older"
                  - redirects | map(it.url) | first endsWith "/old"
                  - url endsWith "/item"
                  - ip == "127.0.0.1"
                  - version == "HTTP/1.1"
                  - duration < 30
              b:
                get: old
                max-redirs: 0
                expect: [status == 301, redirects isEmpty, headers.Location endsWith "/older", url endsWith "/old"]
            """)
        #expect(finished.states == ["a": "succeeded", "b": "succeeded"], "\(finished.result.failures.map(\.failures))")
    }

    @Test func `polling uses the same language`() async throws {
        let count = Locked(0)
        server.route("/job") { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number < 3 ? .text("wait") : .json(text: #"{"parts": [1, 2]}"#)
        }
        let finished = try await bench.run(
            "requests: {a: {get: job, poll: {until: 'body.parts | count == 2 and headers.Content-Type contains \"json\"', every: 1ms}}}"
        )
        #expect(finished.states == ["a": "succeeded"], "\(finished.result.failures.map(\.failures))")
        #expect(count.withLock { $0 } == 3)
    }

    @Test func `a regular expression that needs too much memory fails instead of matching nothing`() throws {
        let response = ExpressionTests.response(Data(String(repeating: "a", count: 3_000_000).utf8), type: "text/plain")
        for text in ["body matches '(a|aa)+c'", "body not matches '(a|aa)+c'"] {
            #expect(throws: EvaluationError.self) { try ExpressionTests.value(text, response) }
        }
    }

    @Test func `large documents take linear time and hostile work is limited`() async throws {
        let item = #"{"id": "\#(String(repeating: "x", count: 1000))"}"#
        let items = "[" + Array(repeating: item, count: 400).joined(separator: ",") + "]"
        let response = ExpressionTests.response(Data(items.utf8))
        let clock = ContinuousClock.now
        let work = "the expression needs too much work"
        let search = #"the search for "(x+x+)+y" "#
        for (text, messages) in [
            ("json | map(it.id) | unique | count == 1", []), ("body not contains 'y'", []),
            (#"body | split('"') | map(it | split(':')) | count > 1"#, []),
            ("json | jsonpath('$..id') | sort | count == 400", []), ("json == json", []),
            ("json | map(body contains it.id) | count", [work]), ("json | map(json) | toString", [work]),
            ("json | map(json | jsonpath('$')) | count", [work]), ("json | map(jsonpath('$..id')) | count", [work]),
            ("json | map(json contains 1) | count", [work]),
            ("json | map(json | map(it)) | count", [work]),
            ("body | replace('x', body) | count", ["replace: the result is larger than 256 MiB"]),
            ("body matches '(x+x+)+y'", [search + "took too long", search + "needs too much memory"]),
        ] {
            do {
                #expect(try ExpressionTests.value(text, response).isTrue && messages.isEmpty, "\(text)")
            } catch {
                #expect(messages.contains((error as? EvaluationError)?.message ?? ""), "\(text): \(error)")
            }
        }
        #expect(ContinuousClock.now - clock < .seconds(60))
    }

    @Test func `the message of a failed check on a large body is short and does not copy the body for each check`() throws {
        let size = 4 << 20
        let (one, other) = (String(repeating: "x", count: size), String(repeating: "y", count: size))
        let body = Data(#"{"a": "\#(one)", "b": ["\#(other)"]}"#.utf8)
        let response = ExpressionTests.response(body)
        let root = try ManifestDocument(parsing: Data("{}".utf8), name: "m").root
        var plan = ExpectationPlan()
        for text in ["json == {a: 1, b: ['z']}", "json.a == 'x'", "json.b == ['y']", "json == 1", "json.b | first == 'q'"] {
            plan.checks += [CheckPlan(expression: try ExpressionParser.parse(text, in: .response), source: root)]
        }
        let failures = ExpectationCheck.failures(plan, ExpressionTests.scope(response))
        #expect(failures.count == 5)
        for failure in failures { #expect(failure.text.utf8.count < 1000, "\(failure.text)") }
        #expect(failures[0].text.contains("/a: "))
    }
}
