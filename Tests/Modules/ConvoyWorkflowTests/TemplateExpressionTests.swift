import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Expressions in `${…}`.
@Suite struct TemplateExpressionTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        server.echo(at: "/echo")
        server.route("/list", .json(text: #"{"ids": [3, 1, 2], "next": "/last", "path": "../x", "name": "a/b c"}"#))
        server.route("/last", .text("last"))
    }

    private func sent() -> [String] { server.requests.filter { $0.path == "/echo" }.map(\.text) }

    @Test func `a path sent as written has the manifest's dot segments, but none of a value`() async throws {
        server.echo(at: "/e/*")
        server.route("/dots", .json(text: #"{"dots": "..", "name": "a"}"#))
        let finished = try await bench.run(
            """
            requests:
              a: {get: dots, capture: {name: "json:/name", dots: "json:/dots"}}
              b: {get: "e/../${a.name}", path-as-is: true}
              c: {get: "e/../${a.dots}/x", path-as-is: true}
            """)
        #expect(server.requests.contains { $0.target.hasSuffix("/e/../a") }, "\(server.requests.map(\.target))")
        #expect(try finished.failure("c").hasSuffix("a value leads to another directory"))
    }

    @Test func `masks distinguish secrets that are canonically equivalent`() {
        let mask = SecretMask()
        mask.add(["\u{212A}ey-4711"])
        mask.add(["Key-4711"])
        #expect(mask.masked("Key-4711 \u{212A}ey-4711") == "*** ***")
    }

    @Test func `functions and filters produce values with their types`() async throws {
        let file = bench.directory.url.appendingPathComponent("in.txt")
        try Data("ü\n".utf8).write(to: file)
        let finished = try await bench.run(
            """
            variables: {list: [3, 1], id: "${uuid()}", when: "${'2026-01-02' | date | format('%d.%m.%Y')}"}
            requests:
              a:
                post: echo
                json:
                  sorted: "${list | sort}"
                  count: "${list | count}"
                  text: "n=${list | count}, ${env(NOPE, 'none')} ${env(NAME)} $${x}"
                  when: "${when}"
                  file: "${file('\(file.path)') | trim}"
                  object: "${ {a: list, b: '}'} }"
                  random: "${random(5, 5)}"
              b: {post: echo, json: {one: "${id}", two: "${id}"}}
              c: {post: echo, json: {one: "${uuid()}", two: "${uuid()}", at: "${now() | format('%Y')}"}}
            """, environment: ["NAME": "ada"])
        #expect(finished.states == ["a": "succeeded", "b": "succeeded", "c": "succeeded"])
        #expect(
            sent().contains(
                #"{"sorted":[1,3],"count":2,"text":"n=2, none ada ${x}","when":"02.01.2026","file":"ü","object":{"a":[3,1],"b":"}"},"random":5}"#
            ), "\(sent())")
        for text in sent() {
            guard case .object(let object)? = try? JSON(parsing: Data(text.utf8)), let one = object["one"] else { continue }
            #expect(UUID(uuidString: one.text) != nil)
            #expect((object["at"] == nil) == (one == object["two"]))
        }
    }

    @Test func `values from responses stay untrusted`() async throws {
        let finished = try await bench.run(
            """
            requests:
              list: {get: list, capture: {ids: "json:/ids", next: "json:/next", path: "json:/path", name: "json:/name"}}
              each: {forEach: "${list.ids | sort}", post: echo, json: "${item}", parallel: 1}
              last: {get: "${list.next | replace('last', 'last')}"}
              path: {get: "x/${list.name | lower}"}
              out: {get: last, output: "o/${list.path | lower}"}
              read: {post: echo, text: "${file(list.path)}"}
            """)
        #expect(
            finished.states == [
                "list": "succeeded", "each[1]": "succeeded", "each[2]": "succeeded", "each[3]": "succeeded",
                "last": "succeeded", "path": "failed", "out": "succeeded", "read": "failed",
            ], "\(finished.result.failures.map(\.failures))")
        #expect(sent() == ["1", "2", "3"])
        #expect(server.requests.contains { $0.target.hasSuffix("/x/a%2Fb%20c") }, "\(server.requests.map(\.target))")
        #expect(try finished.failure("read") == "file cannot use a value from a response in its path")
        let files = try FileManager.default.contentsOfDirectory(atPath: bench.directory.url.path + "/o")
        #expect(files == ["___x"])
    }

    @Test func `conditions combine the values of requests`() async throws {
        let finished = try await bench.run(
            """
            variables: {yes: true, no: false}
            requests:
              a: {post: echo, json: ["${yes and no}", "${not no}", "${yes or no}", "${2 in list.ids}", "${list.next isString}"]}
              list: {get: list, capture: {ids: "json:/ids", next: "json:/next"}}
            """)
        #expect(finished.states == ["a": "succeeded", "list": "succeeded"])
        #expect(sent() == ["[false,true,true,true,true]"])
    }

    @Test(
        arguments: [
            #"{get: "${env.CODE | toHex}://x"}"#, #"{get: "x?a=${env.CODE | upper}\t"}"#,
            #"{get: echo, headers: {X-A: "${env.CODE | upper}\n"}}"#, #"{get: "http://${code}:x/"}"#,
            #"{post: echo, file: "/nowhere/${env.CODE | upper}"}"#,
            #"{get: echo, json: 1, when: "${env.CODE | toInt == 1}"}"#,
            #"{post: echo, text: "${env.CODE | upper | date}"}"#, #"{get: echo, user: "${env.CODE | upper}"}"#,
            #"{get: echo, expect: {status: "${env.CODE | upper}"}}"#,
        ]) func `an error of a request shows no value that is computed from a secret`(_ request: String) async throws
    {
        var shown = ""
        do {
            let finished = try await bench.run(
                """
                variables: {code: "${env.CODE | replace('p', 'P') | lower | replace('o', '0')}"}
                secrets: [env.CODE]
                requests:
                  a: \(request)
                """, environment: ["CODE": "open-Sesame"])
            #expect(finished.states == ["a": "failed"])
            shown = try finished.failure("a") + (finished.outcome("a").url ?? "")
        } catch let error as ManifestError {
            shown = error.description
        }
        #expect(!shown.isEmpty)
        for secret in ["open-sesame", "0pen-sesame", "6f70656e2d536573616d65"] {
            #expect(!shown.lowercased().contains(secret), "\(shown)")
        }
    }

    @Test func `numbers that are secrets are masked except where the types of values matter`() {
        let mask = SecretMask(
            extending: { () in
                let mask = SecretMask()
                mask.add(["493817"])
                return mask
            }())
        let json: JSON = ["a": [493817, 4938170], "b": "x493817"]
        #expect(mask.masked(json, named: "").description == #"{"a":["***",4938170],"b":"x***"}"#)
        #expect(
            String(decoding: mask.masked(json: Data(json.description.utf8)), as: UTF8.self)
                == #"{"a":[493817,4938170],"b":"x***"}"#)
    }

    @Test func `a request with random values is kept on resume and sends one value`() async throws {
        let manifest = """
            requests:
              a: {post: echo, headers: {Idempotency-Key: "${uuid()}"}, json: {password: "${random(100000000, 999999999)}"}}
            """
        let journal = bench.directory.url.appendingPathComponent("journal")
        for resumes in [false, true] {
            let finished = try await bench.run(manifest) { options in
                (options.journal, options.resumes) = (journal, resumes)
            }
            #expect(finished.states == ["a": resumes ? "kept" : "succeeded"])
            let password = try #require(sent().first.map { $0.filter(\.isNumber) })
            if !resumes { #expect(finished.run.secrets.masked("x\(password)") == "x\(password)") }
        }
        #expect(sent().count == 1)
    }

    @Test func `a secret with a default is not sent to a server that only a response names`() async throws {
        let other = try TestServer()
        other.route("/x", .text("x"))
        server.route("/to", .json(text: #"{"url": "\#(other.url.absoluteString)x"}"#))
        let finished = try await bench.run(
            """
            secrets: [env.CODE]
            requests:
              to: {get: to, capture: {link: "json:/url"}}
              a: {get: "${to.link}", headers: {X-A: "${env(CODE, 'none') | upper}"}}
            """, environment: ["CODE": "open sesame"])
        #expect(finished.states == ["to": "succeeded", "a": "failed"])
        #expect(other.requests.isEmpty)
    }

    @Test func `the preview shows expressions that have no value yet`() throws {
        let workflow = try bench.workflow(
            """
            variables: {n: [1, 2]}
            requests:
              a: {get: list, capture: {ids: "json:/ids"}}
              b: {post: "x/${n | count}", json: {id: "${uuid()}", n: "${a.ids | count}", secret: "${env(SECRET, 'none')}"}}
            """, environment: ["SECRET": "hunter22"])
        let preview = try WorkflowRun(workflow).preview().joined(separator: "\n")
        #expect(preview.contains("/x/2\n"))
        #expect(preview.contains(#""id":"${uuid()}","n":"${a.ids | count}""#), "\(preview)")
        #expect(!preview.contains("hunter22"))
    }

    @Test(
        arguments: [
            ("${uuid(}", "m.yaml:4:22: the expression ends too early"), ("${a b}", "m.yaml:4:14: invalid reference ${a b}"),
            ("${env.X:-d}", "m.yaml:4:14: invalid reference ${env.X:-d}; write ${env(X, 'd')}"),
            ("x ${list | cout}", "m.yaml:4:26: unknown filter \"cout\" (did you mean \"count\"?)"),
            ("${'a}", "m.yaml:4:14: the closing } of a ${ is missing"),
            ("${xpath('//a')}", "m.yaml:4:17: xpath requires a response"),
            ("${file('/nowhere')}", "m.yaml:4:14: cannot read \"/nowhere\": No such file or directory"),
            ("${nope | count}", "m.yaml:4:14: ${nope}: unknown request or variable \"nope\""),
            (
                "${status == 1}",
                "m.yaml:4:14: ${status}: unknown request or variable \"status\"; in expect and until, write status without ${…} for the response"
            ),
        ]) func `a mistake is found before anything is sent`(_ text: String, _ message: String)
    {
        let error = #expect(throws: ManifestError.self) {
            try bench.workflow("variables: {list: [1]}\nrequests: {a: {post: x,\n       text: \"\(text)\"}}")
        }
        #expect(error?.description == message)
    }

    @Test func `the secrets of several masks are replaced at once, the longest first`() {
        let (first, second, all) = (SecretMask(), SecretMask(), SecretMask())
        first.add(["4711ab"])
        second.add(["4711ab-9921"])
        for mask in [first, second] { all.add(from: mask) }
        #expect(all.masked("4711ab-9921 and 4711ab") == "*** and ***")
    }

    @Test func `equal secrets in different Unicode forms are replaced in all encodings`() {
        let secrets = ["caf\u{E9}-4711", "cafe\u{301}-4711"]
        let (run, item) = (SecretMask(), SecretMask())
        for mask in [run, SecretMask(extending: run), item] {
            for secret in secrets { mask.add([secret]) }
            for secret in secrets {
                let encoded = [secret, Escaping.url(secret), Data(secret.utf8).base64EncodedString()]
                for text in encoded { #expect(mask.masked("a \(text) b") == "a *** b") }
            }
        }
        // A mask that extends another one adds nothing to it.
        let (parent, other) = (SecretMask(), "b4711-secret")
        SecretMask(extending: parent).add([other])
        #expect(parent.masked(other) == other)
        parent.add([other])
        #expect(parent.masked("\(other) \u{20AC} \(Data(other.utf8).base64EncodedString())") == "*** \u{20AC} ***")
    }
}
