import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// `convoy send` and `convoy import`.
@Suite(.serialized) struct SendTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route("/api", .json(text: #"{"token":"t 1","n":5}"#))
        server.route("/bin", .bytes(Data([0, 1, 2, 0xFF])))
    }

    private func send(_ arguments: String...) async throws -> ToolProcess.Result {
        let url = server.url("/api").absoluteString
        return try await ToolProcess.run(["send"] + arguments.map { $0.replacing("URL", with: url) }, in: scratch.url)
    }

    @Test func `items are sent as JSON, and the body is printed`() async throws {
        let result = try await send("post", "URL", "name=ada", "age:=36", "tags:=[\"a\"]", "q==a b", "X-Trace:1")
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.output == #"{"token":"t 1","n":5}"#)
        let request = try #require(server.requests.first)
        #expect(request.text == #"{"name":"ada","age":36,"tags":["a"]}"#)
        #expect(request.target == "/api?q=a%20b")
        #expect(request.headers["X-Trace"] == "1")
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.headers["User-Agent"] == Program.userAgent)
    }

    @Test func `forms, parts and files are sent`() async throws {
        try scratch.write("in a file", to: "f.txt")
        #expect(try await send("--form", "POST", "URL", "a=b c", "f@f.txt").status == 0)
        #expect(try await send("--multipart", "POST", "URL", "a=b", "f@f.txt").status == 0)
        #expect(try await send("--body", "f.txt", "PUT", "URL").status == 0)
        #expect(try await send("POST", "URL", "f@f.txt").status == 0)
        let requests = server.requests
        try #require(requests.count == 4)
        #expect(requests[3].text == #"{"f":"in a file"}"#)
        #expect(requests[0].headers["Content-Type"]?.hasPrefix("multipart/form-data") == true)
        #expect(requests[0].text.contains("filename=\"f.txt\"") && requests[0].text.contains("b c"))
        #expect(requests[1].text.contains("filename=\"f.txt\"") && requests[1].text.contains("in a file"))
        #expect(requests[2].text == "in a file" && requests[2].method == "PUT")
    }

    @Test(
        arguments: [
            (["a[b]=c", "a[d][]:=1", "a[d][]:=2"], #"{"a":{"b":"c","d":[1,2]}}"#), (["[]:=1", "[]=x"], #"[1,"x"]"#),
            (["a[1]=x", "a[0]:=true"], #"{"a":[true,"x"]}"#), (["a[][b]=c", "a[][b]=d"], #"{"a":[{"b":"c"},{"b":"d"}]}"#),
            ([#"a\[b\]=c"#], #"{"a[b]":"c"}"#), ([#"a[\0]=c"#], #"{"a":{"0":"c"}}"#), (["[b]=1"], #"{"b":"1"}"#),
            ([#"a\=b=1"#], #"{"a=b":"1"}"#),
            (["a[0][x]=1", "a[0][y]=2"], #"{"a":[{"x":"1","y":"2"}]}"#), (["t=@f.txt"], #"{"t":"in\na file\n"}"#),
            (["j:=@f.json"], #"{"j":{"a":[1]}}"#), (["a=1", "a=2"], #"{"a":"2"}"#), (["a[=1"], nil), (["a]=1"], nil),
            (["a[b]=1", "a[]=2"], nil), (["a=1", "a[b]=2"], nil), (["a[99999]=1"], nil), (["a[b]c=1"], nil),
        ] as [([String], String?)]) func `items set nested values`(_ items: [String], _ body: String?) async throws
    {
        try scratch.write("in\na file\n", to: "f.txt")
        try scratch.write(#"{"a": [1]}"#, to: "f.json")
        let result = try await ToolProcess.run(["send", server.url("/api").absoluteString] + items, in: scratch.url)
        #expect(result.status == (body == nil ? 2 : 0), "\(result.errors)")
        #expect(server.requests.first?.text == body)
    }

    @Test func `fields are removed, emptied and read from files, and the query too`() async throws {
        try scratch.write("from a file\n", to: "f.txt")
        let result = try await send("URL", "a=b", "Content-Type:", "X-Empty;", "X-File:@f.txt", "q==@f.txt", "X-A:b;c")
        #expect(result.status == 0, "\(result.errors)")
        let request = try #require(server.requests.first)
        #expect(request.method == "POST" && request.headers["Content-Type"] == nil)
        #expect(
            request.headers["X-Empty"] == "" && request.headers["X-File"] == "from a file" && request.headers["X-A"] == "b;c"
        )
        #expect(request.target == "/api?q=from%20a%20file%0A")
    }

    @Test func `a URL may consist of a port and a path`() async throws {
        for (text, status) in [(":\(server.port)/api", 0), (":\(server.port)/nope", 7), (":x", 2)] {
            #expect(try await send(text).status == status, "\(text)")
        }
        #expect(server.requests.map(\.path) == ["/api", "/nope"])
    }

    @Test func `--output writes the body to a file, and --offline sends nothing`() async throws {
        try scratch.write("old", to: "out.json")
        let written = try await send("-o", "out.json", "URL")
        #expect(written.status == 0 && written.output.isEmpty, "\(written.errors)")
        #expect(try scratch.text("out.json") == #"{"token":"t 1","n":5}"#)
        #expect(try await send("-o", "out.json", "--head", "URL").status == 2)
        server.forgetRequests()
        let shown = try await send("--offline", "URL", "a=b", "X-Api-Key:s3cret-key")
        #expect(shown.status == 0, "\(shown.errors)")
        let url = server.url("/api").absoluteString
        #expect(shown.outputLines == ["POST \(url)", "X-Api-Key: ***", "Content-Type: application/json", #"{"a":"b"}"#])
        #expect(server.requests.isEmpty)
    }

    @Test func `with --capture, only the captured values are printed`() async throws {
        let one = try await send("--capture", "token=json:/token", "GET", "URL")
        #expect(one.output == "t 1\n")
        let two = try await send("--capture", "token=json:/token", "--capture", "n=json:/n", "GET", "URL")
        #expect(two.output == "token='t 1'\nn='5'\n")
        let none = try await send("--capture", "x=json:/x", "GET", "URL")
        #expect(none.status == 1 && none.errorLines == ["convoy: capture x: nothing found at json:/x"])
    }

    @Test func `--expect determines the exit status`() async throws {
        #expect(try await send("--expect", "status=200", "--expect", "type=application/json", "GET", "URL").status == 0)
        let other = try await send("--expect", "status=404", "GET", "URL")
        #expect(other.status == 7)
        #expect(other.errorLines.first?.hasPrefix("convoy: status: expected 404, got 200") == true)
        let wrong = try await send("--expect", "statis=404", "GET", "URL")
        #expect(wrong.status == 2 && wrong.errors.contains("did you mean \"status\"?"))
    }

    @Test func `--save appends the request to a manifest`() async throws {
        for _ in 0..<2 { #expect(try await send("--save", "m.yaml", "POST", "URL", "a=${x}").status == 0) }
        let check = try await ToolProcess.run(["check", "m.yaml"], in: scratch.url)
        #expect(check.outputLines == ["m.yaml: 2 requests, no mistakes"])
        #expect(try scratch.text("m.yaml").contains("  post-api-2:\n    post: http://"))
        server.forgetRequests()
        #expect(try await ToolProcess.run(["run", "m.yaml"], in: scratch.url).status == 0)
        #expect(server.requests.map(\.text) == [#"{"a":"${x}"}"#, #"{"a":"${x}"}"#])
    }

    @Test func `--curl prints a curl command, and --head the response head`() async throws {
        let curl = try await send("--curl", "POST", "URL", "a=b")
        #expect(
            curl.status == 0 && curl.output.hasPrefix("curl ") && curl.output.contains(#"{"a":"b"}"#),
            "\(curl.output)\(curl.errors)")
        #expect(server.requests.isEmpty)
        let head = try await send("--head", "GET", "URL")
        #expect(head.outputLines.first?.hasPrefix("HTTP/1.1 200") == true && !head.output.contains("token"))
    }

    @Test func `a terminal shows the head and indented JSON, but no binary data`() async throws {
        let url = server.url.absoluteString
        let json = try await ToolProcess(["send", "GET", "\(url)/api"], in: scratch.url, columns: 80).finished()
        #expect(json.output.contains("HTTP/1.1 200") && json.output.contains("\"n\"") && json.output.contains("  "))
        let binary = try await ToolProcess(["send", "GET", "\(url)/bin"], in: scratch.url, columns: 80).finished()
        #expect(binary.output.contains("(4 B of binary data; redirect the output to a file or a pipe)"))
    }

    @Test(arguments: [
        ["GET", "URL"], ["POST", "URL", "a=${x} 'q' \u{85}\u{2028}é", "n:=[1,{\"b\":null}]", "q==a b&c", "X-A:b: c, d"],
        ["--form", "PUT", "URL", "a=b c", "a=d", "e=\u{7F}"], ["-u", "ada:p w", "GET", "URL?login"],
        ["-A", "x/1", "-H", "Accept: a/b", "--body", "f.txt", "PATCH", "URL"], ["OPTIONS", "URL"],
    ])
    func `a saved request is the same as the one sent`(arguments: [String]) async throws {
        server.route("/api") { request in
            request.target.contains("login") && request.headers["Authorization"] == nil
                ? .status(401, headers: ["WWW-Authenticate": "Basic realm=\"r\""]) : .text("x")
        }
        try scratch.write("in a file\r\n", to: "f.txt")
        let url = server.url("/api").absoluteString
        let sent = try await ToolProcess.run(
            ["send", "--save", "m.yaml"] + arguments.map { $0.replacing("URL", with: url) }, in: scratch.url)
        #expect(sent.status == 0, "\(sent.errors)")
        let first = server.requests
        server.forgetRequests()
        let run = try await ToolProcess.run(["run", "m.yaml"], in: scratch.url, environment: ["PASSWORD": "p w"])
        #expect(run.status == 0, "\(run.errors)")
        let second = server.requests
        #expect(first.map(\.target) == second.map(\.target) && first.map(\.method) == second.map(\.method))
        #expect(first.map(\.body) == second.map(\.body))
        func fields(_ request: RecordedRequest) -> [String] {
            "\(request.headers)".split(separator: "\n").map(String.init).sorted()
        }
        #expect(first.map(fields) == second.map(fields))
        let text = try scratch.text("m.yaml")
        #expect(!text.contains("p w") && text.contains("User-Agent") == arguments.contains("-A"), "\(text)")
    }

    @Test func `a saved request refers to variables instead of containing its secrets`() async throws {
        for secret in ["one-two-three", "four-five-six"] {
            let saved = try await send(
                "--save", "m.yaml", "-H", "Authorization: Bearer \(secret)", "POST", "URL", "password=\(secret)")
            #expect(saved.status == 0)
            #expect(saved.errors.contains("give it as TOKEN in the environment"), "\(saved.errors)")
        }
        let text = try scratch.text("m.yaml")
        #expect(text.hasPrefix("version: 1\nsecrets: [env.TOKEN]\n"), "\(text)")
        #expect(
            text.contains("Authorization: \"Bearer ${env.TOKEN}\"") && !text.contains("one-two")
                && !text.contains("four-five"))
    }

    @Test func `--head prints cookies, which -v hides`() async throws {
        server.route("/cookie", .text("x").header("Set-Cookie", "sid=s3cret"))
        let url = server.url("/cookie").absoluteString
        let head = try await ToolProcess.run(["send", "-v", "--head", "GET", url], in: scratch.url)
        #expect(
            head.output.contains("Set-Cookie: sid=s3cret") && !head.errors.contains("s3cret"), "\(head.output)\(head.errors)"
        )
    }

    @Test func `options that a manifest cannot express are reported`() async throws {
        let saved = try await send(
            "--save", "m.yaml", "-u", "ada:pw", "-k", "--max-time", "5", "--cookie-jar", "jar", "GET", "URL")
        #expect(saved.status == 0)
        #expect(
            saved.errorLines.filter { $0.hasPrefix("convoy: m.yaml") } == [
                "convoy: m.yaml: the password of ada: not written here; give it as PASSWORD in the environment of convoy run",
                "convoy: m.yaml: --cookie-jar was not saved; pass it to convoy run",
            ], "\(saved.errors)")
        let text = try scratch.text("m.yaml")
        for line in ["secrets: [env.PASSWORD]", "user: \"ada:${env.PASSWORD}\"", "insecure: true", "max-time: 5"] {
            #expect(text.contains(line), "\(text)")
        }
        #expect(try await send("--save", "m.yaml", "GET", "URL").status == 0)
    }

    @Test func `the import command prints manifests`() async throws {
        let curl = try await ToolProcess.run(["import", "curl", "curl -H 'Accept: a/b' https://a.test/x"], in: scratch.url)
        #expect(
            curl.output == "version: 1\nrequests:\n  request:\n    get: https://a.test/x\n    headers:\n      Accept: a/b\n")
        let wrong = try await ToolProcess.run(["import", "curl", "curl"], in: scratch.url)
        #expect(wrong.status == 2 && wrong.errorLines == ["convoy: import curl: The command has no URL."])
        for isShown in [false, true] {
            let login = try await ToolProcess.run(
                ["import"] + (isShown ? ["--show-secrets"] : []) + ["curl", "curl -u ada:s3cret a.test"], in: scratch.url)
            #expect(login.status == 0 && login.output.contains("s3cret") == isShown, "\(login.output)\(login.errors)")
        }
        try scratch.write(
            #"{"log":{"entries":[{"request":{"method":"GET","url":"https://a.test/y","headers":[]}}]}}"#, to: "a.har")
        let har = try await ToolProcess.run(["import", "har", "a.har"], in: scratch.url)
        #expect(har.output == "version: 1\nrequests:\n  get-y:\n    get: https://a.test/y\n")
    }
}
