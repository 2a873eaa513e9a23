import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Files of Hurl as manifests, which are run against a server.
@Suite struct HurlImportTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        server.route("POST", "/echo") { .text($0.text) }
        server.route("/hello", .text("Hello World!"))
        server.route("/hello/*") { .text("\($0.version) \($0.target)") }
        server.route("/old", .redirect(to: "/hello"))
        server.route(
            "/item",
            .json(
                text: #"{"id": 7, "name": "Ada", "tags": ["a", "b"], "csrf": "tok-1", "day": "2026-01-02", "none": null}"#))
        var page = TestServer.Response.text("<html><h1>Title</h1><p>1<p>2</html>")
        page.headers["Content-Type"] = "text/html"
        server.route("/page", page)
        server.route("/gone", .text("gone", status: 410))
        server.route("/digest") { request in
            request.headers["Authorization"]?.hasPrefix("Digest username=\"bob\"") == true
                ? .text("in") : .status(401, headers: ["WWW-Authenticate": "Digest realm=\"r\", nonce=\"n\", qop=\"auth\""])
        }
        server.redirect("/far", to: "http://localhost:\(server.port)/login")
        server.route("/login") { .text($0.headers["Authorization"] ?? "") }
        server.route("POST", "/signed") { .text(String(($0.headers["Authorization"] ?? "").prefix { $0 != "/" })) }
    }

    private func manifest(_ text: String) throws -> String {
        try HurlReader.manifest(Data(text.replacing("HOST", with: server.url.absoluteString.dropSuffix("/")).utf8))
    }

    private func run(_ text: String) async throws -> (manifest: String, result: WorkflowResult) {
        let manifest = try manifest(text)
        let workflow = try Workflow(parsing: Data(manifest.utf8), name: "m", inputs: WorkflowInputs(environment: [:]))
        var options = WorkflowRun.Options()
        options.directory = bench.directory.url
        return (manifest, await (try WorkflowRun(workflow, options: options)).run())
    }

    static let whole = [
        "GET HOST/hello\nHTTP 200\n```Hello World!```\n",
        "# a comment\nGET HOST/hello # another\nHTTP/1.1 200\n`Hello World!`\n",
        "GET HOST/hello\n\nHTTP 200\nContent-Type: text/plain; charset=utf-8\n[Asserts]\nbody == \"Hello World!\"\nbody startsWith \"Hello\"\nbody not contains \"x\"\nbytes count == 12\nbytes startsWith hex,48656c;\nsha256 == hex,7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069;\nmd5 == hex,ed076287532e86365e841e92bfc50d8c;\nduration < 30000\nheader \"X\" not exists\nheader \"Content-Type\" count == 1\nurl endsWith \"/hello\"\nversion == \"1.1\"\nip isIpv4\nbody matches /^Hello [A-Z]/\n",
        "GET HOST/old\nHTTP 302\n[Asserts]\nredirects count == 0\nheader \"Location\" endsWith \"/hello\"\n\nGET HOST/old\n[Options]\nlocation: true\nHTTP 200\n[Asserts]\nredirects count == 1\nredirects nth 0 location endsWith \"/hello\"\n",
        "GET HOST/gone\nHTTP 410\n\nGET HOST/gone\nHTTP *\n\nGET HOST/gone\n",
        """
        GET HOST/item
        HTTP 200
        [Captures]
        id: jsonpath "$.id"
        token: jsonpath "$.csrf" redact
        type: header "Content-Type"
        url: url
        [Asserts]
        jsonpath "$.id" == 7
        jsonpath "$.id" isInteger
        jsonpath "$.id" not == 8
        jsonpath "$.name" == "Ada"
        jsonpath "$.tags" count == 2
        jsonpath "$.tags[*]" includes "a"
        jsonpath "$.tags" isCollection
        jsonpath "$.nope" not exists
        jsonpath "$.none" == null
        jsonpath "$.day" toDate "%Y-%m-%d" format "%d.%m.%Y" == "02.01.2026"
        jsonpath "$.day" split "-" nth 1 toInt == 1
        variable "id" == 7

        POST HOST/echo
        X-Token: {{token}}
        [Query]
        n: {{id}}
        {"id": {{id}}, "text": "{{id}} é \\"q\\"", "only": "{{id}}", "{{id}}": [true]}
        HTTP 200
        [Asserts]
        jsonpath "$.id" == {{id}}
        jsonpath "$.only" == "{{id}}"
        jsonpath "$.text" == "7 é \\"q\\""
        """,
        "POST HOST/echo\n[Form]\na: 1\nb: x y\nHTTP 200\n`a=1&b=x%20y`\n",
        "POST HOST/echo\n```xml\n<a>{{newUuid}}</a>\n```\nHTTP 200\n[Asserts]\nbody regex \"<a>(.*)</a>\" isUuid\n",
        "POST HOST/echo\nContent-Type: text/x\n<a>\n <b/>\n</a>\nHTTP 200\n<a>\n <b/>\n</a>\n",
        "POST HOST/echo\nbase64,aGVsbG8=;\nHTTP 200\n[Asserts]\nbytes == base64,aGVsbG8=;\nbytes toHex == \"68656c6c6f\"\n",
        "GET HOST/item\nHTTP 200\n{\"tags\": [\"a\", \"b\"], \"id\": 7, \"name\": \"Ada\", \"csrf\": \"tok-1\", \"day\": \"2026-01-02\", \"none\": null}\n",
        "GET HOST/page\nHTTP 200\n[Asserts]\nxpath \"string(//h1)\" == \"Title\"\nxpath \"//p\" count == 2\nxpath \"count(//p)\" == 2.0\nbody htmlUnescape contains \"<h1>\"\n",
        "GET HOST/hello\n[Options]\nskip: true\nHTTP 500\n\nGET HOST/hello\n[Options]\nvariable: word=World\nHTTP 200\n[Asserts]\nbody contains {{word}}\nbody split \" \" nth 0 == \"Hello\"\n",
        "POST HOST/echo\n[BasicAuth]\nbob@email.com: secret{}\n[Multipart]\na: b\nHTTP 200\n",
        "GET HOST/digest\n[Options]\ndigest: true\nuser: bob:secret\nHTTP 200\n`in`\n",
        "GET HOST/far\n[Options]\nlocation-trusted: true\n[BasicAuth]\nbob: secret\nHTTP 200\n`Basic Ym9iOnNlY3JldA==`\n",
        "POST HOST/signed\n[Options]\nuser: someAccessKeyId:someSecretKey\naws-sigv4: aws:amz:eu-central-1:foo\n`x`\nHTTP 200\n`AWS4-HMAC-SHA256 Credential=someAccessKeyId`\n",
        "GET HOST/hello\n[Cookies]\na: b\nc: d\nHTTP 200\n", "GET\tHOST/hello\nHTTP\t200\n",
        "GET HOST/hello/../%2e/hello\n[Options]\npath-as-is: true\nHTTP 200\n[Asserts]\nbody == \"HTTP/1.1 /hello/../%2e/hello\"\nurl endsWith \"/hello/../%2e/hello\"\n",
        "GET HOST/hello/./x\n[Options]\nhttp1.0: true\nHTTP 200\n`HTTP/1.0 /hello/x`\n\nGET HOST/hello/x\n[Options]\nhttp1.0: true\nhttp1.1: true\nHTTP 200\n`HTTP/1.1 /hello/x`\n\nGET HOST/hello/x\n[Options]\nhttp1.0: true\nhttp2: true\npath-as-is: false\nHTTP 200\n`HTTP/1.1 /hello/x`\n\nGET HOST/hello/x\n[Options]\nhttp1.1: false\nHTTP 200\n`HTTP/1.0 /hello/x`\n\nGET HOST/hello/x\n[Options]\nhttp1.0: true\nhttp1.0: false\nHTTP 200\n`HTTP/1.0 /hello/x`\n",
        "GET HOST/hello\n[Options]\ndelay: 5\nHTTP 200\n\nGET HOST/hello\n[Options]\ndelay: 5ms\nHTTP 200\n",
    ]

    @Test(arguments: whole) func `a file becomes a manifest that passes`(_ text: String) async throws {
        let (manifest, result) = try await run(text)
        #expect(!manifest.contains("not expressed"), "\(manifest)")
        #expect(result.failures.isEmpty, "\(result.failures.flatMap(\.failures)) \(manifest)")
        #expect(!server.requests.isEmpty)
    }

    @Test func `wrong expectations fail`() async throws {
        let (_, result) = try await run(
            "GET HOST/item\nHTTP 200\nX-A: b\n[Asserts]\njsonpath \"$.id\" == \"7\"\nduration < 0\nbytes count == 3\n{\"id\": 8}\n"
        )
        #expect(result.failures.first?.failures.count == 5, "\(result.failures.flatMap(\.failures))")
    }

    @Test func `variables of checks are declared, and options with templates become comments`() throws {
        let manifest = try manifest(
            """
            GET HOST/hello
            [Options]
            max-redirs: {{count}}
            proxy: {{proxy}}
            user: {{user}}:x
            HTTP 200
            X-A: {{header}}
            [Asserts]
            body == {{wanted}}
            jsonpath "$.a" == "{{text}}"
            variable "known" == 1
            certificate "Subject" == {{unused}}
            """)
        for line in [
            "max-redirs: {{count}}", "proxy: {{proxy}}", "X-A: {{header}}", "certificate \"Subject\" == {{unused}}",
        ] {
            #expect(manifest.contains("  # not expressed: \(line)\n"), "\(manifest)")
        }
        #expect(manifest.contains(#"variables: {"user":null,"wanted":null,"text":null,"known":null}"#), "\(manifest)")
        #expect(throws: Never.self) {
            var inputs = WorkflowInputs(environment: [:])
            inputs.variables = ["user": "a", "wanted": "b", "text": "c", "known": 1]
            _ = try Workflow(parsing: Data(manifest.utf8), name: "m", inputs: inputs)
        }
    }

    @Test(arguments: ["osc:sdk4:eu:foo", "aws:amz:eu:foo\n[Multipart]\na: b"])
    func `a secret key is not sent if its signature cannot be expressed`(_ option: String) throws {
        let manifest = try manifest(
            "GET HOST/x\n[Options]\nuser: some-key:some-secret\naws-sigv4: \(option)\nHTTP 200\n")
        #expect(manifest.contains("# not expressed: aws-sigv4: "), "\(manifest)")
        #expect(!manifest.contains("basic") && !manifest.contains("user:"), "\(manifest)")
    }

    @Test func `what cannot be expressed becomes a comment, and missing variables must be given`() throws {
        let manifest = try manifest(
            """
            GET HOST/{{path}}
            [Options]
            aws-sigv4: aws:amz
            HTTP 200
            [Captures]
            cert: certificate "Subject"
            [Asserts]
            certificate "Subject" == "x"
            jsonpath "$.a" == "x {{path}}"
            rawbytes count == 3
            """)
        for line in [
            "aws-sigv4: aws:amz", "cert: certificate \"Subject\"", "jsonpath \"$.a\" == \"x {{path}}\"",
            "rawbytes count == 3",
        ] {
            #expect(manifest.contains("  # not expressed: \(line)"), "\(manifest)")
        }
        #expect(manifest.contains(#"variables: {"path":null}"#))
        let error = #expect(throws: ManifestError.self) {
            try Workflow(parsing: Data(manifest.utf8), name: "m", inputs: WorkflowInputs(environment: [:]))
        }
        #expect(error?.message == #"the variable "path" has no value: set it with --var"#)
    }

    @Test(arguments: [
        ("", "line 1: no requests"), ("hello\n", "line 1: expected a method and a URL"),
        ("GET http://a/\nHTTP 200\n```\nx\n", "line 3: the closing ``` is missing"),
        ("GET http://a/\n{\"a\": 1\nHTTP 200\n", "line 2: the JSON is not complete"),
        ("GET http://a/\n[Query]\nfoo\n", "line 3: expected NAME: VALUE"),
        ("GET http://a/\nHTTP 200\nnonsense\n", "line 3: expected a method and a URL"),
    ]) func `a file that is not Hurl is rejected`(_ text: String, _ message: String) {
        let problem = #expect(throws: HurlReader.Problem.self) { try HurlReader.manifest(Data(text.utf8)) }
        #expect(problem?.description == message)
    }
}

extension String {
    fileprivate func dropSuffix(_ suffix: String) -> String { hasSuffix(suffix) ? String(dropLast(suffix.count)) : self }
}
