import ConvoySerialization
import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// `convoy run` and `convoy check` with manifests whose requests have names.
@Suite(.serialized) struct WorkflowTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
    }

    func run(_ text: String, _ arguments: String..., before: [String] = ["run"]) async throws -> ToolProcess.Result {
        try scratch.write("baseURL: \(server.url.absoluteString)\n\(text)", to: "m.yaml")
        return try await ToolProcess.run(before + arguments + ["m.yaml"], in: scratch.url)
    }

    let chain = """
        variables: {user: ada}
        requests:
          login: {post: login, json: {user: "${user}"}, capture: {token: "json:/token"}}
          me: {get: me, bearer: "${login.token}", output: me.json}
        """

    func serveChain() {
        server.route("POST", "/login", .json(["token": "t1"]))
        server.route("/me", .json(["name": "ada"]))
    }

    @Test func `the requests of a manifest are run`() async throws {
        serveChain()
        let result = try await run(chain, "--var", "user=bob")
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.outputLines.count == 3)
        #expect(result.outputLines.first?.hasPrefix("login: 200, ") == true)
        #expect(result.outputLines.last?.hasPrefix("2 succeeded, in ") == true)
        #expect(server.requests.first?.text == #"{"user":"bob"}"#)
        #expect(try scratch.text("me.json") == #"{"name":"ada"}"#)
        let again = try await run(chain)
        #expect(again.status == 8)
        #expect(again.errorLines == ["convoy: file exists: me.json; see --force"])
    }

    @Test func `--resume does not repeat successful requests`() async throws {
        serveChain()
        #expect(try await run(chain).status == 0)
        server.forgetRequests()
        let result = try await run(chain, "--resume")
        #expect(result.status == 0, "\(result.errors)")
        #expect(server.requests.isEmpty)
        #expect(result.outputLines.last?.hasPrefix("0 succeeded, 2 in an earlier run, in ") == true)
    }

    @Test func `a failure is reported with its line in the manifest and its exit status`() async throws {
        server.route("/bad", .text("no", status: 500))
        let result = try await run("requests:\n  bad: {get: bad, expect: {type: a/b}}\n  late: {get: bad, after: bad}\n")
        #expect(result.status == 7)
        #expect(
            result.errorLines == [
                #"convoy: m.yaml:3: bad: status: expected 200-299, got 500, with "no""#,
                "convoy: m.yaml:3: bad: type: expected a/b, got text/plain",
            ])
        #expect(result.outputLines.first == #"late: not sent, because "bad" failed"#)
        #expect(result.outputLines.last?.hasPrefix("0 succeeded, 1 skipped, 1 failed, in ") == true)
    }

    @Test func `an error in a manifest is reported before anything is sent`() async throws {
        let text = "requests:\n  a: {get: a}\n  b: {get: b, afer: a}\n"
        for before in [["run"], ["check"]] {
            let result = try await run(text, before: before)
            #expect(result.status == 2)
            #expect(result.errorLines == [#"convoy: m.yaml:4:15: unknown key "afer" in "b" (did you mean "after"?)"#])
        }
        #expect(server.requests.isEmpty)
        let good = try await run("requests: {a: {get: a}}", before: ["check"])
        #expect(good.status == 0)
        #expect(good.outputLines == ["m.yaml: 1 request, no mistakes"])
    }

    @Test func `--dry-run and --graph send nothing`() async throws {
        let manifest =
            "secrets: [env.PW]\n" + chain.replacing("{user: \"${user}\"}", with: "{user: \"${user}\", pw: \"${env.PW}\"}")
        try scratch.write("PW=geheim\nexport OTHER='x'\n# c\n", to: "env")
        let preview = try await run(manifest, "--env-file", "env", "--dry-run")
        #expect(preview.status == 0, "\(preview.errors)")
        let text = server.url.absoluteString, base = text.hasSuffix("/") ? text : text + "/"
        #expect(
            preview.outputLines == [
                "# login", "POST \(base)login", "Content-Type: application/json", #"{"user":"ada","pw":"***"}"#,
                "# me, after login", "GET \(base)me", "Authorization: Bearer ${login.token}", "# into me.json",
            ])
        #expect(!preview.output.contains("geheim"))
        let dot = try await run(chain, "--graph", "dot")
        #expect(dot.outputLines.contains(#"  "login" -> "me";"#))
        let mermaid = try await run(chain, "--graph", "mermaid")
        #expect(
            mermaid.outputLines == [
                "graph LR", #"  login["login<br>POST login"]"#, #"  me["me<br>GET me"]"#, "  login --> me",
            ])
        #expect(server.requests.isEmpty)
    }

    @Test func `--only runs the given requests and their dependencies`() async throws {
        serveChain()
        server.route("/x", .text("x"))
        let result = try await run(chain + "\n  x: {get: x}\n  y: {get: x, after: x}", "--only", "me,x")
        #expect(result.status == 0, "\(result.errors)")
        #expect(Set(server.requests.map(\.path)) == ["/login", "/me", "/x"])
        let unknown = try await run(chain, "--only", "mee")
        #expect(unknown.status == 2)
        #expect(unknown.errorLines.first?.contains(#"--only: unknown request "mee" in m.yaml"#) == true)
    }

    @Test func `--only and --skip accept tags`() async throws {
        for name in ["a", "b", "c", "d", "e"] { server.route("/\(name)", .text(name)) }
        let manifest = """
            requests:
              a: {get: a, tags: smoke}
              b: {get: b, tags: [slow, "two words"], after: a}
              c: {get: c, after: b}
              d: {get: d, when: always(), after: [b, c]}
              e: {get: e, when: b.status == 200}
            """
        func paths(_ options: String...) async throws -> Set<String> {
            let before = server.requests.count
            let result = try await run(manifest, before: ["run"] + options)
            #expect(result.status == 0, "\(result.errors)")
            return Set(server.requests.dropFirst(before).map(\.path))
        }
        #expect(try await paths("--only", "smoke") == ["/a"])
        #expect(try await paths("--only", "two words") == ["/a", "/b"])
        #expect(try await paths("--skip", "slow") == ["/a", "/d"])
        #expect(try await paths("--skip", "c,e") == ["/a", "/b", "/d"])
        #expect(try await paths("--skip", "slow", "--only", "smoke,d") == ["/a", "/d"])
        for (options, message) in [
            (["--skip", "no"], #"--skip: unknown request "no" in m.yaml"#),
            (["--skip", "a", "--skip", "d"], "--skip leaves no request to run"),
            (["--skip", "b", "--only", "slow"], "--only and --skip leave nothing of a request to run"),
        ] {
            let result = try await run(manifest, before: ["run"] + options)
            #expect(result.status == 2)
            #expect(result.errorLines.first?.contains(message) == true, "\(result.errors)")
        }
    }

    @Test func `--report, --timeline and --har write reports`() async throws {
        server.route("/ok", .text("x"))
        server.route("/bad", .status(404))
        let text = "requests: {ok: {get: ok}, bad: {get: bad}, late: {get: ok, after: bad}}"
        let result = try await run(
            text, "--report", "tap", "--report", "junit=r.xml", "--timeline", "t.html", "--har", "h.har")
        #expect(result.status == 7)
        #expect(result.outputLines.prefix(3) == ["TAP version 13", "1..3", "ok 1 - ok"])
        #expect(result.outputLines.contains("not ok 2 - bad"))
        #expect(result.outputLines.last == #"ok 3 - late # SKIP not sent, because "bad" failed"#)
        let xml = try scratch.text("r.xml")
        #expect(xml.contains(#"tests="3" failures="1" skipped="1""#))
        #expect(xml.contains(#"<failure message="status: expected 200-299, got 404">"#))
        let page = try scratch.text("t.html")
        #expect(page.contains("<svg") && page.contains("class=\"wait\"") && !page.contains("http-equiv"))
        #expect(try scratch.text("h.har").contains("\"status\":404") || scratch.text("h.har").contains("\"status\" : 404"))
    }

    /// Writes two manifests, a list of requests and files that are no manifests into the directory `suite`.
    private func writeSuite() throws {
        server.route("/ok", .text("x"))
        server.route("/bad", .status(404))
        let base = "baseURL: \(server.url.absoluteString)\n"
        try scratch.makeDirectory("suite/more")
        try scratch.write("\(base)requests: {ok: {get: ok, tags: smoke}, bad: {get: bad}}", to: "suite/b.yaml")
        try scratch.write("include: [../_base.yaml]\nrequests: {ok: {get: ok, after: first}}", to: "suite/more/a.yml")
        try scratch.write(
            "\(base)requests: {first: {get: ok, query: {a: \"${n}\"}}}\nvariables: {n: 1}", to: "suite/_base.yaml")
        try scratch.write("{\"a\": 1}", to: "suite/data.json")
        try scratch.write("no manifest", to: "suite/note.txt")
    }

    @Test func `a directory of manifests is run and has one report`() async throws {
        try writeSuite()
        let result = try await ToolProcess.run(
            [
                "run", "--var", "n=2", "--report", "junit=r.xml", "--report", "json=r.json", "--report", "tap=r.tap",
                "--report", "html=r.html", "suite",
            ], in: scratch.url)
        #expect(result.status == 7, "\(result.errors)")
        #expect(result.errorLines == ["convoy: suite/b.yaml:2: bad: status: expected 200-299, got 404"])
        #expect(server.requests.map(\.target).sorted() == ["/bad", "/ok", "/ok", "/ok?a=2"])
        #expect(result.outputLines.last?.hasPrefix("3 succeeded, 1 failed, in ") == true, "\(result.output)")
        let xml = try scratch.text("r.xml")
        #expect(xml.contains(#"<testsuites tests="4" failures="1" skipped="0""#))
        #expect(
            xml.split(separator: "<testsuite ").count == 3 && xml.contains(#"file="suite/more/../_base.yaml" line="2""#),
            "\(xml)")
        #expect(try scratch.text("r.tap").hasPrefix("TAP version 13\n1..4\nok 1 - suite/b.yaml: ok\n"))
        let json = try JSON(parsing: try scratch.data("r.json"))
        #expect(json[["failed"]] == 1 && json[["runs", "0", "requests", "1", "failures", "0", "line"]] == 2)
        #expect(try scratch.text("r.html").split(separator: "<section>").count == 3)
        let check = try await ToolProcess.run(["check", "suite"], in: scratch.url)
        #expect(check.outputLines == ["suite/b.yaml: 2 requests, no mistakes", "suite/more/a.yml: 2 requests, no mistakes"])
    }

    @Test(
        arguments: [
            (["--shard", "1/2", "suite"], ["/bad", "/ok"]), (["--shard", "2/2", "suite"], ["/ok", "/ok?a=1"]),
            (["--shard", "3/3", "suite"], []), (["--only", "smoke", "suite"], ["/ok"]),
            (["--repeat", "3", "--only", "ok", "suite/b.yaml"], ["/ok", "/ok", "/ok"]),
            (["--skip", "bad,first", "suite/b.yaml", "suite/more/a.yml"], ["/ok"]),
            (["--shard", "1/2", "--var", "n=1", "suite"], ["/bad", "/ok"]),
        ]) func `parts of several manifests are run`(_ arguments: [String], _ targets: [String]) async throws
    {
        try writeSuite()
        let result = try await ToolProcess.run(["run", "--json"] + arguments, in: scratch.url)
        #expect(result.status == (targets.contains("/bad") ? 7 : 0), "\(result.errors)")
        #expect(server.requests.map(\.target).sorted() == targets, "\(result.output)")
        #expect(try result.output.isEmpty || result.objects().allSatisfy { $0["manifest"] is String })
    }

    @Test(
        arguments: [
            (["--shard", "0/2", "suite"], "--shard takes K/N"), (["--shard", "x", "suite"], "--shard takes K/N"),
            (["--repeat", "0", "suite"], "--repeat takes a whole number"), (["--graph", "dot", "suite"], "one manifest"),
            (["--only", "nope", "suite"], "unknown request \"nope\" in 2 manifests"),
            (["--report", "pdf=x", "suite"], "html=FILE"),
            (["empty"], "empty contains no manifests"), (["suite/b.yaml", "list.json"], "list.json is a list of requests"),
            (["--resume", "--repeat", "2", "suite"], "cannot be combined"), (["--var", "m=1", "suite"], "unknown variable"),
            (["cycle.yaml"], "circular include"), (["missing.yaml"], "missing.yaml:1:10: include: cannot read"),
            (["twice.yaml"], "\"ok\" is already a request of \"suite/b.yaml\""),
        ]) func `mistakes in sets of manifests are found before anything is sent`(
            _ arguments: [String], _ message: String
        ) async throws
    {
        try writeSuite()
        try scratch.makeDirectory("empty")
        try scratch.write("{\"requests\": [{\"id\": \"a\", \"url\": \"http://a.test\"}]}", to: "list.json")
        try scratch.write("include: cycle.yaml", to: "cycle.yaml")
        try scratch.write("include: nothing.yaml", to: "missing.yaml")
        try scratch.write("include: [suite/b.yaml]\nrequests: {ok: {get: ok}}", to: "twice.yaml")
        let result = try await ToolProcess.run(["run"] + arguments, in: scratch.url)
        #expect(result.status == 2 && result.errors.contains(message), "\(result.errors)")
        #expect(server.requests.isEmpty)
    }

    @Test func `the program's outputs contain no secrets`() async throws {
        let token = "t\"k/n", password = "pass wörd"
        let body = String(decoding: try JSONEncoder().encode(["token": token]), as: UTF8.self)
        server.route("POST", "/login", .json(text: body).header("X-First", token))
        server.route("/echo/*") { request in
            .json(["echo": [request.target, request.text, token, password]], status: 500).header("X-Echo", token)
        }
        let text = """
            secrets: [env.PASSWORD, login.token]
            requests:
              login: {post: login, json: {password: "${env.PASSWORD}"}, capture: {token: "json:/token"}}
              echo: {post: "echo/${login.token}?q=${env.PASSWORD}", text: "${env.PASSWORD}", headers: {X-Own: "${login.token}"}}
            """
        try scratch.write("PASSWORD=\(password)", to: "env")
        let result = try await run(
            text, "--env-file", "env", "-v", "--json", "--har", "h.har", "--report", "junit=r.xml", "--timeline", "t.html")
        #expect(result.status == 7, "\(result.errors)")
        var texts = [result.output, result.errors]
        for name in ["h.har", "r.xml", "t.html", ".m.yaml.convoyrun"] {
            texts.append(String(decoding: (try? scratch.data(name)) ?? Data(), as: UTF8.self))
        }
        for text in texts {
            for form in [token, password, "t%22k%2Fn", "pass%20w%C3%B6rd", #"t\"k/n"#] {
                #expect(!text.contains(form), "\(form) in \(text)")
            }
        }
        #expect(result.errors.contains("X-Own: ***"))
    }

    @Test func `invalid option values are rejected before anything is sent`() async throws {
        serveChain()
        #expect(try await run(chain, "--only", "").status == 2)
        try FileManager.default.createDirectory(
            at: scratch.url.appendingPathComponent("d"), withIntermediateDirectories: false)
        let result = try await run(chain, "--report", "junit=d")
        #expect(result.status == 8 && result.errors.contains("Is a directory"), "\(result.errors)")
        #expect(server.requests.isEmpty)
    }

    @Test func `every report notes that more pages are available`() async throws {
        server.route("/p/*") { request in
            let number = Int(request.path.dropFirst(3)) ?? 0
            return .json(text: #"{"n": \#(number), "next": \#(number < 4 ? "\"/p/\(number + 1)\"" : "null")}"#)
        }
        func text(_ pages: Int) -> String {
            #"requests: {list: {get: p/1, follow: "json:/next", pages: \#(pages), capture: {n: "json:/n"}}}"#
        }
        let cut = try await run(text(2), "--report", "junit=r.xml")
        #expect(cut.status == 0)
        #expect(cut.outputLines.first?.hasSuffix(", stopped after 2 pages; there are more") == true, "\(cut.output)")
        #expect(try scratch.text("r.xml").contains("stopped after 2 pages; there are more"))
        #expect(try await run(text(2), "--json").output.contains(#""morePages":true"#))
        #expect(try await run(text(2), "--report", "tap").output.contains("# stopped after 2 pages; there are more"))
        let whole = try await run(text(4), "--json")
        #expect(!whole.output.contains("morePages"))
    }

    @Test func `no journal is written for a manifest from a pipe`() async throws {
        server.route("/x", .text("x"))
        try scratch.write("baseURL: \(server.url.absoluteString)\nrequests: {x: {get: x}}", to: "m.yaml")
        let result = try await ToolProcess(command: "$convoy run -d out <(cat m.yaml)", in: scratch.url).finished()
        #expect(result.status == 0, "\(result.errors)")
        #expect(!FileManager.default.fileExists(atPath: scratch.url.appendingPathComponent("out").path))
        let resumed = try await ToolProcess(command: "$convoy run --resume <(cat m.yaml)", in: scratch.url).finished()
        #expect(
            resumed.status == 2 && resumed.errors.contains("--resume requires a manifest in a file"),
            "\(resumed.errors)")
    }

    @Test func `a run succeeds if a directory needed only for the journal is unusable`() async throws {
        server.route("/x", .text("x"))
        try scratch.write("a file", to: "d")
        let result = try await run("requests: {x: {get: x}}", "-d", "d")
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.errorLines == ["convoy: not a directory: d; --resume will not work after this run"])
        #expect(try await run("requests: {x: {get: x, output: y}}", "-d", "d").status == 8)
    }

    @Test func `a concurrent run of a manifest in the same directory is refused`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("x").heldBody(by: gate, afterBytes: 0))
        try scratch.write("baseURL: \(server.url.absoluteString)\nrequests: {a: {get: held}}", to: "m.yaml")
        let first = try ToolProcess(["run", "m.yaml"], in: scratch.url)
        _ = try await server.waitForRequests(count: 1)
        for arguments in [["run", "m.yaml"], ["run", "--resume", "m.yaml"]] {
            let second = try await ToolProcess.run(arguments, in: scratch.url)
            #expect(second.status == 8)
            #expect(second.errors.contains("the journal .m.yaml.convoyrun is in use by another run"), "\(second.errors)")
        }
        gate.open()
        #expect(try await first.finished().status == 0)
        server.route("/held", .text("x"))
        #expect(try await ToolProcess.run(["run", "--resume", "m.yaml"], in: scratch.url).status == 0)
        #expect(server.requests.count == 1)
    }

    @Test func `a run leaves one journal, and succeeds without one if it cannot be created`() async throws {
        server.route("/x", .text("x"))
        let text = "requests: {x: {get: x}}"
        #expect(try await run(text).status == 0)
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.url.path)
        #expect(Set(names.filter { $0.hasPrefix(".m.yaml.") }) == [".m.yaml.convoyrun", ".m.yaml.convoyrun.lock"])
        // Not even root can open a directory as a file.
        let journal = scratch.url.appendingPathComponent(".m.yaml.convoyrun")
        try FileManager.default.removeItem(at: journal)
        try FileManager.default.createDirectory(at: journal, withIntermediateDirectories: false)
        let result = try await run(text)
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.errors.contains("--resume will not work after this run"), "\(result.errors)")
        #expect(try await run(text, "--resume").status == 8)
    }

    @Test func `options for named requests are rejected for other manifests`() async throws {
        try scratch.write(#"{"requests": []}"#, to: "old.json")
        let result = try await ToolProcess.run(["run", "--var", "a=b", "old.json"], in: scratch.url)
        #expect(result.status == 2)
        #expect(result.errorLines.first?.contains("--var requires a manifest with named requests") == true)
    }

    @Test func `an interruption ends the run`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("x").heldBody(by: gate, afterBytes: 0))
        try scratch.write(
            "baseURL: \(server.url.absoluteString)\nrequests: {a: {get: held}, b: {get: held, after: a}}", to: "m.yaml")
        let tool = try ToolProcess(["run", "m.yaml"], in: scratch.url)
        _ = try await server.waitForRequests(count: 1)
        tool.send(signal: SIGINT)
        let result = try await tool.finished()
        #expect([130, -SIGINT].contains(result.status), "\(result.status)")
        #expect(result.errorLines == ["convoy: m.yaml:2: a: interrupted"])
        #expect(
            result.outputLines.first?.hasPrefix("0 succeeded, 1 skipped, 1 interrupted, in ") == true, "\(result.output)")
        gate.open()
    }

    @Test func `resuming after an interruption does not repeat successful requests`() async throws {
        let gate = TestServer.Gate()
        server.route("/done", .text("x"))
        server.route("/held", .text("x").heldBody(by: gate, afterBytes: 0))
        try scratch.write(
            "baseURL: \(server.url.absoluteString)\nrequests: {a: {get: done}, b: {get: held, after: a}}", to: "m.yaml")
        let tool = try ToolProcess(["run", "m.yaml"], in: scratch.url)
        _ = try await server.waitForRequests(count: 2)
        tool.send(signal: SIGTERM)
        #expect(try await tool.finished().errorLines == ["convoy: m.yaml:2: b: interrupted"])
        gate.open()
        server.route("/held", .text("x"))
        server.forgetRequests()
        #expect(try await ToolProcess.run(["run", "--resume", "m.yaml"], in: scratch.url).status == 0)
        #expect(server.requests.map(\.path) == ["/held"])
    }
}
