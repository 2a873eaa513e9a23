import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Values from outside with their types, statuses from values, and references in keys.
@Suite struct TypedValueTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        server.echo(at: "/echo")
    }

    @Test(
        arguments: [
            ("3", 3), ("-1.50", .number(JSONNumber("-1.50") ?? JSONNumber(0))), ("true", true), ("false", false),
            ("null", nil),
            ("\"3\"", "3"), ("\"", "\""), ("", ""), ("007", "007"), ("+1", "+1"), ("0x10", "0x10"), ("1e3", 1000),
            ("NaN", "NaN"),
            ("True", "True"), ("no", "no"),
            ("12345678901234567890123", .number(JSONNumber("12345678901234567890123") ?? JSONNumber(0))),
            (" 3", " 3"), ("3 ", "3 "), ("\"a", "\"a"), ("\"\"", ""),
        ] as [(String, JSON)]) func `a text has the type that JSON gives it`(_ text: String, _ value: JSON)
    {
        #expect(WorkflowInputs.value(of: text) == value)
    }

    @Test func `variables and environment files have types`() async throws {
        var inputs = WorkflowInputs(environment: ["API": server.url.absoluteString, "N": "5", "T": "5"])
        inputs.variables = ["a": 36, "b": "36"]
        inputs.typedNames = ["N"]
        let text = """
            baseURL: ${env.API}
            requests:
              r: {post: "echo?x=${a}", json: {a: "${a}", b: "${b}", n: "${env.N}", t: "${env.T}", text: "${a}"}}
            """
        let workflow = try Workflow(parsing: Data(text.utf8), name: "m", inputs: inputs)
        let result = await (try WorkflowRun(workflow)).run()
        #expect(result.failures.isEmpty)
        #expect(server.requests.map(\.text) == [#"{"a":36,"b":"36","n":5,"t":"5","text":36}"#])
    }

    @Test func `the expected status can be a value`() async throws {
        server.route("/gone", .text("gone", status: 410))
        let finished = try await bench.run(
            """
            variables: {number: 410, text: "400-499", list: [200, 410], wrong: [1], other: 200}
            requests:
              a: {get: gone, expect: {status: "${number}"}}
              b: {get: gone, expect: {status: "${text}"}}
              c: {get: gone, expect: {status: "${list}"}}
              d: {get: gone, expect: {status: [200, "${number}"]}}
              e: {get: gone, expect: {status: "${wrong}"}}
              f: {get: gone, expect: [{status: "${other}"}]}
            """)
        #expect(
            finished.states == [
                "a": "succeeded", "b": "succeeded", "c": "succeeded", "d": "succeeded", "e": "failed", "f": "failed",
            ])
        #expect(
            try finished.failure("e")
                == #"status: status must be a number from 100 to 599, a range such as 200-299, or a list of them, not "1""#)
        #expect(try finished.failure("f").hasPrefix("status: expected 200, got 410"))
    }

    @Test func `keys can contain references`() async throws {
        server.route("/key", .json(text: #"{"k": "a/b", "s": "password"}"#))
        let finished = try await bench.run(
            """
            requests:
              key: {get: key, capture: {k: "json:/k", s: "json:/s"}}
              json: {post: echo, json: {"x-${key.k}": 1, n: [{"${key.k}": {b: 2}}]}, after: [query]}
              query: {post: echo, query: {"${key.k}": 1}, after: [form]}
              form: {post: echo, form: {"${key.k}": "${key.k}"}, after: [part]}
              part: {post: echo, multipart: {"${key.s}": hunter22}}
              twice: {post: echo, json: {a: 1, "${'a'}": 2}}
              secret: {post: echo, json: {"${key.s}": hunter22}, expect: [body == 'x']}
            """)
        #expect(finished.states.filter { $0.value != "succeeded" } == ["twice": "failed", "secret": "failed"])
        let texts = server.requests.filter { $0.path.hasPrefix("/echo") }.map(\.text)
        #expect(texts.contains(#"{"x-a/b":1,"n":[{"a/b":{"b":2}}]}"#), "\(texts)")
        #expect(texts.contains("a%2Fb=a%2Fb"))
        #expect(texts.contains { $0.contains("name=\"password\"") })
        #expect(server.requests.contains { $0.target.contains("?a%2Fb=1") })
        #expect(try finished.failure("twice") == #"duplicate key "a""#)
        #expect(try !finished.failure("secret").contains("hunter22"))
    }

    @Test(
        arguments: [
            (
                "{get: \"x/{{a.id}}\"}",
                "3:12: \"{{a.id}}\" is not a reference: write ${a.id} for the value, or ${'{{'}a.id}} for the text"
            ),
            (
                "{get: x, headers: {X: \"{{ token }}\"}}",
                "3:28: \"{{ token }}\" is not a reference: write ${token} for the value, or ${'{{'} token }} for the text"
            ),
            (
                "{post: x, json: {\"{{k}}\": 1}}",
                "3:23: \"{{k}}\" is not a reference: write ${k} for the value, or ${'{{'}k}} for the text"
            ),
            (
                "{get: x, expect: {json: {\"/${k}\": 1}}}",
                "3:31: a key of expect.json cannot contain ${…}; use an expression with jsonpath(…)"
            ),
            ("{post: x, json: {\"${k}\": 1}}", "3:23: ${k}: unknown request or variable \"k\" (did you mean \"a\"?)"),
        ]) func `a mistake is found before anything is sent`(_ request: String, _ message: String)
    {
        let error = #expect(throws: ManifestError.self) { try bench.workflow("requests:\n  a: \(request)") }
        #expect(error?.description == "m.yaml:\(message)")
    }

    @Test(arguments: ["{{a}}", "${'{{'}a}}", "x {{ b }} ${c} $${{d}} {{{e}}}", "{\"a\":{\"b\":{{}}}}", "{{"])
    func `an imported text is sent as it was`(_ text: String) async throws {
        var draft = RequestDraft(method: "POST", url: server.url.appendingPathComponent("echo").absoluteString)
        draft.body = .text(text)
        draft.query = [(name: text, value: text)]
        let manifest = RequestDraft.manifest([("a", draft)])
        let workflow = try Workflow(parsing: Data(manifest.utf8), name: "m", inputs: WorkflowInputs(environment: [:]))
        let result = await (try WorkflowRun(workflow)).run()
        #expect(result.failures.isEmpty, "\(result.failures.map(\.failures)) \(manifest)")
        #expect(server.requests.map(\.text) == [text], "\(manifest)")
    }
}
