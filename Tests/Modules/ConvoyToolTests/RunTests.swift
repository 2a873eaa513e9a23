import ConvoySecurity
import ConvoyTestServer
import Foundation
import Testing

@Suite(.serialized) struct RunTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
    }

    private func run(_ requests: String, _ arguments: String...) async throws -> ToolProcess.Result {
        try scratch.write(#"{"baseURL": "\#(server.url.absoluteString)/v1", "requests": [\#(requests)]}"#, to: "m.json")
        return try await ToolProcess.run(["run"] + arguments + ["m.json"], in: scratch.url)
    }

    @Test func `requests run after their dependencies`() async throws {
        for path in ["/v1/a", "/v1/b", "/v1/c"] { server.route(path, .text("x").delayed(0.05)) }
        let result = try await run(
            """
            {"id": "c", "url": "c", "dependsOn": ["b", "a"]},
            {"id": "b", "url": "b", "dependsOn": ["a", "a"]},
            {"id": "a", "url": "a"}
            """)
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.map(\.path) == ["/v1/a", "/v1/b", "/v1/c"])
        #expect(result.outputLines.count == 4)
        #expect(result.errors.isEmpty)
    }

    @Test func `a request is sent as specified in the manifest`() async throws {
        server.echo(at: "/v1/echo")
        let result = try await run(
            """
            {"id": "1", "url": "echo", "parameters": {"q": "a b", "n": [1, 2]}, "headers": {"X-A": "b"}},
            {"id": "2", "method": "POST", "url": "echo", "parameters": {"q": "a b"}, "dependsOn": ["1"]},
            {"id": "3", "method": "PUT", "url": "echo", "parameters": {"n": 1.5, "ok": true, "no": null},
             "headers": {"Content-Type": "application/json"}, "dependsOn": ["2"]},
            {"id": "4", "method": "HEAD", "url": "/v1/echo", "dependsOn": ["3"], "headers": null, "parameters": null}
            """)
        #expect(result.status == 0, "\(result.errors)")
        let requests = server.requests
        try #require(requests.count == 4)
        #expect(requests[0].target == "/v1/echo?n%5B%5D=1&n%5B%5D=2&q=a%20b")
        #expect(requests[0].headers["X-A"] == "b")
        #expect(requests[1].text == "q=a%20b")
        #expect(requests[1].headers["Content-Type"] == "application/x-www-form-urlencoded")
        #expect(requests[2].text == #"{"n":1.5,"no":null,"ok":true}"#)
        #expect(requests[3].method == "HEAD")
    }

    @Test func `a request with a failed dependency is not sent; independent ones are`() async throws {
        server.route("/v1/ok", .pattern(count: 1000))
        server.route("/v1/bad", .text("no", status: 500))
        let result = try await run(
            """
            {"id": "bad", "url": "bad"},
            {"id": "after", "url": "ok", "dependsOn": ["bad"], "output": "after.bin"},
            {"id": "later", "url": "ok", "dependsOn": ["after"]},
            {"id": "fine", "url": "ok", "output": "sub/fine.bin"}
            """, "--json", "--directory", "out")
        #expect(result.status == 7)
        #expect(server.requests.count == 2)
        let objects = try result.objects()
        let byID = Dictionary(uniqueKeysWithValues: objects.map { ($0["id"] as? String ?? "", $0) })
        #expect((byID["bad"]?["error"] as? String)?.contains("500") == true)
        #expect(byID["after"]?["error"] as? String == #"not sent, because "bad" failed"#)
        #expect(byID["later"]?["error"] as? String == #"not sent, because "after" failed"#)
        #expect(byID["after"]?["status"] == nil)
        #expect(byID["fine"]?["file"] as? String == "out/sub/fine.bin")
        #expect(
            byID["fine"]?["sha256"] as? String
                == MessageDigest.sha256(PatternBytes.data(count: 1000))?.hexadecimalString)
        let order = objects.compactMap { $0["id"] as? String }.filter { $0 != "fine" }
        #expect(order == ["bad", "after", "later"], "a request was reported before its dependencies")
        #expect(try scratch.data("out/sub/fine.bin") == PatternBytes.data(count: 1000))
        #expect(!FileManager.default.fileExists(atPath: scratch.url.appendingPathComponent("out/after.bin").path))
    }

    @Test func `a request is not sent if its dependency failed to write a file`() async throws {
        let gate = TestServer.Gate()
        server.route("/v1/file", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 1000))
        server.route("DELETE", "/v1/file", .text("gone"))
        try scratch.write(
            """
            {"baseURL": "\(server.url.absoluteString)/v1/", "requests": [
              {"id": "fetch", "url": "file", "output": "out"},
              {"id": "delete", "method": "DELETE", "url": "file", "dependsOn": ["fetch"]}]}
            """, to: "m.json")
        let tool = try ToolProcess(["run", "--json", "m.json"], in: scratch.url)
        try await scratch.waitForFile("out.part")
        try scratch.write("mine", to: "out")
        gate.open()
        let result = try await tool.finished()
        #expect(result.status == 8)
        #expect(server.requests.map(\.method) == ["GET"])
        let errors = try result.objects().map { $0["error"] as? String }
        #expect(errors == ["file exists: out; see --force", #"not sent, because "fetch" failed"#])
        #expect(try scratch.text("out") == "mine")
        #expect(scratch.names == ["m.json", "out"])
    }

    @Test func `a manifest is read from standard input`() async throws {
        server.route("/x", .text("x"))
        let result = try await ToolProcess.run(
            ["run", "-"], in: scratch.url,
            input: #"{"requests": [{"id": "x", "url": "\#(server.url("/x").absoluteString)"}]}"#)
        #expect(result.status == 0)
        #expect(server.requests.count == 1)
    }

    @Test func `a manifest can be read from process substitution`() async throws {
        server.route("/x", .text("x"))
        let manifest = #"{"requests": [{"id": "x", "url": "\#(server.url("/x").absoluteString)"}]}"#
        let result = try await ToolProcess.run(command: "$convoy run <(echo '\(manifest)')", in: scratch.url)
        #expect(result.status == 0, "\(result.errors)")
    }

    @Test func `an existing output ends the run before anything is sent`() async throws {
        server.route("/v1/ok", .text("new"))
        try scratch.write("old", to: "there")
        let requests = #"{"id": "a", "url": "ok"}, {"id": "b", "url": "ok", "output": "there", "dependsOn": ["a"]}"#
        let refused = try await run(requests)
        #expect(refused.status == 8)
        #expect(refused.errorLines.count == 1)
        #expect(server.requests.isEmpty)
        #expect(try scratch.text("there") == "old")
        #expect(try await run(requests, "--force").status == 0)
        #expect(try scratch.text("there") == "new")
    }

    struct Mistake: Sendable, CustomTestStringConvertible {
        var requests: String
        var text: String
        var testDescription: String { text }
    }

    @Test(arguments: [
        Mistake(
            requests: #"{"id":"a","url":"x","dependsOn":["b"]},{"id":"b","url":"x","dependsOn":["c"]},"#
                + #"{"id":"c","url":"x","dependsOn":["b"]}"#,
            text: #"circular dependency: "b" -> "c" -> "b""#),
        Mistake(requests: #"{"id":"a","url":"x","dependsOn":["a"]}"#, text: #"circular dependency: "a" -> "a""#),
        Mistake(requests: #"{"id":"a","url":"x","dependsOn":["z"]}"#, text: #""a" depends on "z""#),
        Mistake(requests: #"{"id":"a","url":"x"},{"id":"a","url":"y"}"#, text: #"the id "a" is used twice"#),
        Mistake(requests: #"{"id":"","url":"x"}"#, text: "the id is empty"),
        Mistake(requests: #"{"url":"x"}"#, text: #"no "id""#),
        Mistake(requests: #"{"id":"a"}"#, text: #"no "url""#),
        Mistake(requests: #"{"id":"a","url":"ftp://h/x"}"#, text: "invalid URL"),
        Mistake(requests: #"{"id":"a","url":"http://"}"#, text: "invalid URL"),
        Mistake(requests: #"{"id":"a","url":"http://h:99999/"}"#, text: "invalid URL"),
        Mistake(requests: #"{"id":"a","url":"x\u001b[2J"}"#, text: "invalid URL"),
        Mistake(requests: #"{"id":"a","url":7}"#, text: "url must be a string"),
        Mistake(requests: #"{"id":"a","url":"x","method":"GE T"}"#, text: "invalid method"),
        Mistake(requests: #"{"id":"a","url":"x","method":"get"}"#, text: "case-sensitive, use GET"),
        Mistake(requests: #"{"id":"a","url":"x","method":""}"#, text: "invalid method"),
        Mistake(requests: #"{"id":"a","url":"x","headers":{"X":"a\r\nY: b"}}"#, text: "control character"),
        Mistake(requests: #"{"id":"a","url":"x","headers":["X"]}"#, text: "headers must be an object"),
        Mistake(requests: #"{"id":"a","url":"x","dependOn":[]}"#, text: #"unknown key "dependOn""#),
        Mistake(requests: #"{"id":"a","url":"x","url":"y"}"#, text: "duplicate key"),
        Mistake(
            requests: #"{"id":"a","url":"x","output":"f"},{"id":"b","url":"x","output":"./f"}"#, text: "same output"),
        Mistake(
            requests: #"{"id":"a","url":"x","output":"f"},{"id":"b","url":"x","output":"f.part"}"#, text: "same output"),
        Mistake(requests: #"{"id":"a","url":"x","output":"../f"}"#, text: "invalid output"),
        Mistake(requests: #"{"id":"a","url":"x","output":"../\u0301f"}"#, text: "invalid output"),
        Mistake(requests: #"{"id":"a","url":"x","output":"/\u0301f"}"#, text: "invalid output"),
        Mistake(
            requests: #"{"id":"a","url":"x","output":"\#(String(repeating: "d/", count: 2100))f"}"#,
            text: "invalid output"),
        Mistake(
            requests: #"{"id":"a","url":"x","output":"f"},{"id":"b","url":"x","output":"f/g"}"#,
            text: #"the output of "b" is below "f", which is a file of "a""#),
        Mistake(
            requests: #"{"id":"a","url":"x","output":"f/g/h"},{"id":"b","url":"x","output":"f"}"#,
            text: #"the output of "a" is below "f", which is a file of "b""#),
        Mistake(
            requests: #"{"id":"a","url":"x","output":"f"},{"id":"b","url":"x","output":"f.part/g"}"#,
            text: #"the output of "b" is below "f.part", which is a file of "a""#),
        Mistake(
            requests: #"{"id":"a","url":"x","headers":{"Content-Type":"a/b","content-type":"c/d"}}"#,
            text: #"the header "content-type" is given twice"#),
        Mistake(requests: #"{"id":"a","url":"x","output":"/tmp/f"}"#, text: "invalid output"),
        Mistake(requests: #"{"id":"a","url":"x",}"#, text: "expected a key in quotes"),
        Mistake(requests: #"{"id":"a" "url":"x"}"#, text: "expected ',' or '}'"),
        Mistake(requests: #"{"id":"a","url":"x"#, text: "unterminated string"),
        Mistake(requests: #"{"id":"a\ud800","url":"x"}"#, text: "surrogate"),
        Mistake(requests: #"{"id":01,"url":"x"}"#, text: "invalid number"),
    ])
    func `an error in a manifest is one line with its position, and nothing is sent`(_ mistake: Mistake) async throws {
        server.route("/*", .text("x"))
        let result = try await run(#"{"id":"first","url":"x"},"# + mistake.requests)
        #expect(result.status == 2)
        #expect(result.output.isEmpty)
        #expect(result.errorLines.count == 1)
        #expect(result.errors.contains(mistake.text), "\(result.errors)")
        #expect(result.errors.prefixMatch(of: #/convoy: m\.json:\d+:\d+: /#) != nil, "\(result.errors)")
        #expect(!result.errors.contains("\u{1B}"))
        #expect(server.requests.isEmpty)
        #expect(scratch.names == ["m.json"])
    }

    @Test(arguments: [
        "", "[]", "{}", "nonsense", #"{"requests": {}}"#, #"{"requests": [], "x": 1}"#,
        #"{"requests": [1]}"#, #"{"baseURL": "nowhere", "requests": []}"#, #"{"requests": []} x"#,
        #"{"requests": [{"id": "a", "url": "relative"}]}"#, String(repeating: "[", count: 100_000),
    ])
    func `an invalid manifest is a usage error`(_ text: String) async throws {
        try scratch.write(text, to: "m.json")
        let result = try await ToolProcess.run(["run", "m.json"], in: scratch.url)
        #expect(result.status == 2)
        #expect(result.errorLines.count == 1)
        #expect(result.output.isEmpty)
    }

    @Test func `a long chain runs to completion`() async throws {
        server.route("/v1/x", .text("x"))
        let requests = (0..<200).map { number in
            #"{"id":"\#(number)","url":"x","dependsOn":[\#(number == 0 ? "" : #""\#(number - 1)""#)]}"#
        }
        let result = try await run(requests.joined(separator: ","), "--json")
        #expect(result.status == 0)
        #expect(try result.objects().compactMap { $0["id"] as? String } == (0..<200).map(String.init))
    }

    @Test func `outputs are requested without content encoding; discarded bodies may be encoded`() async throws {
        server.echo(at: "/v1/echo")
        let result = try await run(
            """
            {"id": "1", "url": "echo", "output": "f"},
            {"id": "2", "url": "echo", "output": "g", "headers": {"accept-encoding": "br"}, "dependsOn": ["1"]},
            {"id": "3", "url": "echo", "dependsOn": ["2"]}
            """)
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.map { $0.headers["Accept-Encoding"] ?? "none" }.prefix(2) == ["identity", "br"])
        #expect(server.requests.last?.headers["Accept-Encoding"]?.contains("gzip") == true)
    }

    @Test func `an interrupted run sends no further requests and is terminated by the signal`() async throws {
        let gate = TestServer.Gate()
        server.route("/v1/held", .text("x").held(by: gate))
        server.route("/v1/never", .text("x"))
        try scratch.write(
            """
            {"baseURL": "\(server.url.absoluteString)/v1/", "requests": [
              {"id": "held", "url": "held", "output": "held"}, {"id": "never", "url": "never", "dependsOn": ["held"]}]}
            """, to: "m.json")
        let tool = try ToolProcess(["run", "m.json"], in: scratch.url)
        try await server.waitForRequests(count: 1)
        tool.send(signal: SIGINT)
        #expect(try await tool.finished().status == -SIGINT)
        #expect(server.requests.map(\.path) == ["/v1/held"])
        #expect(scratch.names == ["m.json"])
    }
}
