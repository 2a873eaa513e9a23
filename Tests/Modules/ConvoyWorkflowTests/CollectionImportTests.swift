import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Collections of Postman and Bruno as manifests, which are run against a server.
@Suite struct CollectionImportTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }
    private var host: String { server.url.absoluteString.replacing(/\/$/, with: "") }

    init() throws {
        bench = try WorkflowBench()
        server.route("POST", "/login") { request in
            var response = TestServer.Response.json(
                text: #"{"token": "tok-1", "user": {"id": 7, "tags": ["a", "b"], "none": null}}"#)
            response.headers["X-Trace"] = "t-1"
            return request.text.contains("ada") ? response : .status(401)
        }
        server.route("POST", "/echo") { .text($0.text) }
        server.route("/items/*") { request in
            .json([
                "path": request.target, "auth": request.headers["Authorization"] ?? "",
                "key": request.headers["X-Key"] ?? "",
            ])
        }
        server.route("/old", .redirect(to: "/items/1"))
    }

    private func run(_ manifest: String, _ variables: [String: JSON] = [:]) async throws -> WorkflowResult {
        var inputs = WorkflowInputs(environment: ["SECRET": "s3cret"])
        inputs.variables = variables
        let workflow = try Workflow(parsing: Data(manifest.utf8), name: "m", inputs: inputs)
        var options = WorkflowRun.Options()
        options.directory = bench.directory.url
        return await (try WorkflowRun(workflow, options: options)).run()
    }

    // MARK: Postman

    @Test func `an object in a variable is not a template`() throws {
        let value = #"{"x": "${file('/etc/passwd')}"}"#, item = #"{"name": "a", "request": {"url": "http://a.test/{{v}}"}}"#
        let text = #"{"variable": [{"key": "v", "value": \#(value)}], "item": [\#(item)]}"#
        let manifest = try PostmanReader.manifest(Data(text.utf8))
        #expect(manifest.contains("$${file"), "\(manifest)")
    }

    private var collection: String {
        """
        {"info": {"name": "API", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
         "variable": [{"key": "host", "value": "\(host)"}, {"key": "path", "value": "{{host}}/items"}, {"key": "later"}],
         "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}"}]},
         "item": [
          {"name": "Log in", "request": {"method": "POST", "auth": {"type": "noauth"}, "url": "{{host}}/login",
            "body": {"mode": "raw", "raw": "{\\"user\\": \\"ada\\", \\"id\\": \\"{{$guid}}\\"}", "options": {"raw": {"language": "json"}}}},
           "event": [{"listen": "test", "script": {"exec": [
             "// a comment", "const data = pm.response.json()", "pm.test('status', () => {", "  pm.response.to.have.status(200);", "});",
             "pm.test(\\"body\\", function () {",
             "  pm.expect(data.user.id).to.eql(7); pm.expect(data.user.tags).to.include('a')",
             "  pm.expect(data.user.tags.length).to.be.above(1);", "  pm.expect(data['user'].tags).to.have.lengthOf(2);",
             "  pm.expect(data.user.none).to.be.null;", "  pm.expect(data.user.x).to.be.undefined;",
             "  pm.expect(data.user).to.have.property('id', 7);", "  pm.expect(pm.response.responseTime).to.be.below(20000);",
             "  pm.expect(pm.response.headers.get('X-Trace')).to.match(/^t-[0-9]$/);", "  pm.expect(pm.response.text()).to.not.include('nope');",
             "  pm.expect(data.user.id).to.be.a('number').and.to.be.above(3);", "  pm.expect(data.user.id).to.be.oneOf([7, 8]);", "});",
             "tests['old'] = responseCode.code === 200;", "pm.environment.set('token', data.token);",
             "pm.collectionVariables.set('user id', data.user.id);", "if (data.x) { console.log('x') }",
             "pm.globals.set('word', 'w');"]}}]},
          {"name": "Folder", "item": [
           {"name": "Get item", "request": {"method": "GET", "header": [{"key": "X-Key", "value": "{{word}}"}, {"key": "Y", "value": "1", "disabled": true}],
             "url": {"raw": "{{path}}/:id?a=1", "variable": [{"key": "id", "value": "{{user_id}}"}]}},
            "event": [{"listen": "test", "script": {"exec": "pm.test('x', () => pm.expect(pm.response.json().auth).to.equal('Bearer tok-1'))\\npm.test('y', function() { pm.expect(pm.response.json().key).to.equal(pm.variables.get('word')) })"}}]},
           {"name": "Form", "request": {"method": "POST", "url": {"raw": "{{host}}/echo"}, "body": {"mode": "urlencoded",
             "urlencoded": [{"key": "a", "value": "x y"}, {"key": "b", "value": "1", "disabled": true}]}},
            "event": [{"listen": "test", "script": {"exec": ["pm.response.to.have.body('a=x%20y')", "pm.response.to.be.ok"]}}]},
           {"name": "Redirect", "protocolProfileBehavior": {"followRedirects": false}, "request": {"method": "GET", "url": "{{host}}/old"},
            "event": [{"listen": "test", "script": {"exec": ["pm.response.to.have.status(302)", "pm.response.to.have.header('Location')"]}}]}]}]}
        """
    }

    @Test func `a collection of Postman becomes a manifest that passes`() async throws {
        let manifest = try PostmanReader.manifest(Data(collection.replacing("{{user_id}}", with: "{{user id}}").utf8))
        // A name with a space is not a variable.
        #expect(manifest.contains("not expressed: if(data.x) {"), "\(manifest)")
        let result = try await run(try PostmanReader.manifest(Data(collection.replacing("user id", with: "user_id").utf8)))
        #expect(result.failures.isEmpty, "\(result.failures.flatMap(\.failures)) \(manifest)")
        #expect(result.outcomes.map(\.name) == ["Log-in", "Get-item", "Form", "Redirect"])
        #expect(server.requests.map(\.target) == ["/login", "/items/7?a=1", "/echo", "/old"])
        try #require(server.requests.count == 4)
        #expect(server.requests[2].headers["Authorization"] == "Bearer tok-1")
        #expect(manifest.components(separatedBy: "not expressed").count == 3, "\(manifest)")
    }

    @Test(
        arguments: [
            ("pm.expect(pm.response.code).to.equal(201)", "status == 201"),
            ("pm.response.to.not.have.status(500)", "status != 500"),
            ("pm.expect(pm.response.json()).to.be.an('array').that.is.not.empty", nil),
            ("pm.expect(pm.response.json()).to.be.an('array')", "json isList"),
            ("pm.expect(pm.response.json()[0]['a b']).to.exist", "json[0]['a b'] exists and json[0]['a b'] not isNull"),
            ("pm.expect(pm.response.code >= 200).to.be.true", "status >= 200"),
            ("pm.expect(pm.response.responseTime).to.be.lessThan(250)", "duration < 0.25"),
            ("pm.expect(pm.cookies.get('a')).to.eql('b')", "cookies['a'] == 'b'"),
            ("pm.expect(pm.response.json().a).to.deep.equal({b: [1, 'x']})", "json.a == {'b': [1, 'x']}"),
            ("pm.response.to.have.header('A', \"it's\")", "headers['A'] == \"it's\""),
            ("expect(res.getStatus()).to.equal(200)", "status == 200"),
            ("expect(res.body.a).to.be.false", "json.a == false"),
            ("expect(res.getHeader('A')).to.contain('x')", "headers['A'] contains 'x'"),
            ("pm.response.to.be.success", "status >= 200 and status < 300"),
            ("pm.expect(foo).to.equal(1)", nil), ("pm.expect(pm.response.json().a).to.satisfy(f)", nil),
            ("pm.sendRequest('x', function (err, res) { pm.expect(1).to.eql(1) })", nil), ("const x = `a${b}`", nil),
            ("for (const a of pm.response.json()) { pm.expect(a).to.eql(1) }", nil),
            ("const ok = res.status === 200 || res.status === 201; pm.expect(ok).to.be.true", nil),
            ("const t = res.body.a + res.body.b; pm.expect(t).to.eql(5)", nil),
            ("tests['ok'] = responseCode.code === 200 || responseCode.code === 201", nil),
            ("let total = 0; res.body.forEach(i => { total += i }); pm.expect(total).to.eql(60)", nil),
        ] as [(String, String?)]) func `a statement of a script is a check or is left out`(
            _ script: String, _ check: String?
        )
    {
        let reader = ScriptReader(script, ImportedVariables(functions: [:]))
        #expect(reader.checks == (check.map { [$0] } ?? []), "\(script)")
        #expect(reader.others.isEmpty == (check != nil))
        if let check { #expect(throws: Never.self) { try ExpressionParser.parse(check, in: .response) } }
    }

    @Test(
        arguments: [
            ("pm.environment.set('t', pm.response.json().a[0].b)", "json:$.a[0].b"),
            ("bru.setEnvVar('t', res.body['a-b'])", "json:$['a-b']"),
            ("pm.globals.set('t', pm.response.headers.get('X'))", "header:X"),
            ("bru.setVar('t', res.status)", "status"), ("pm.variables.set('t', responseBody)", "text:"),
            ("postman.setEnvironmentVariable('t', JSON.parse(responseBody).x)", "json:$.x"),
        ]) func `a variable that is set from the response is a capture`(_ script: String, _ source: String)
    {
        let reader = ScriptReader(script, ImportedVariables(functions: [:]))
        #expect(reader.captures.map(\.source) == [source] && reader.captures.map(\.name) == ["t"], "\(reader.others)")
    }

    @Test(
        arguments: [
            ("[]", "not a collection of Postman: no \"item\""), ("{", "line 1: "),
            (#"{"item": []}"#, "the collection has no requests"),
        ]) func `a file that is not a collection is rejected`(_ text: String, _ message: String)
    {
        let problem = #expect(throws: PostmanReader.Problem.self) { try PostmanReader.manifest(Data(text.utf8)) }
        #expect(problem?.description.hasPrefix(message) == true, "\(problem?.description ?? "")")
    }

    // MARK: Bruno

    private var files: [String: String] {
        [
            "collection.bru":
                "headers {\n  X-Key: k1\n}\n\nauth {\n  mode: bearer\n}\n\nauth:bearer {\n  token: {{token}}\n}\n",
            "environments/local.bru": "vars {\n  host: \(host)\n  items: {{host}}/items\n}\nvars:secret [\n  password\n]\n",
            "users/second.bru": """
            meta {
              name: Second
              type: http
              seq: 2
            }

            get {
              url: {{items}}/:id?b={{process.env.SECRET}}
              body: none
              auth: inherit
            }

            params:path {
              id: {{id}}
            }

            headers {
              ~X-Key: other
            }

            assert {
              res.status: eq 200
              res.body.path: eq /items/7?b=s3cret
              res.body.auth: eq Bearer tok-1
              res.body.key: k1
              res.body.nope: isUndefined
              ~res.status: eq 500
              res.responseTime: lt 20000
              res.body.path: startsWith /items/{{id}}
              res("x"): eq 1
            }

            tests {
              test("header", function() {
                expect(res.getHeader("Content-Type")).to.contain("json");
              });
            }
            """,
            "users/first.bru": """
            meta {
              name: First user
              seq: 1
            }

            post {
              url: {{host}}/login
              body: json
              auth: none
            }

            body:json {
              {
                "user": "ada",
                "at": "{{$timestamp}}"
              }
            }

            vars:post-response {
              token: res.body.token
              id: res.body.user.id
            }
            """,
            "form.bru": """
            meta {
              name: Form
            }
            post {
              url: {{host}}/echo
              body: formUrlEncoded
              auth: basic
            }
            auth:basic {
              username: ada
              password: {{process.env.SECRET}}
            }
            body:form-urlencoded {
              a: 1
            }
            settings {
              followRedirects: false
              timeout: 30000
            }
            assert {
              res.status: in 200, 201
            }
            """,
        ]
    }

    private func manifest(_ files: [String: String]) throws(BrunoReader.Problem) -> String {
        try BrunoReader.manifest(
            files.sorted { $0.key < $1.key }.map { BrunoReader.Source(path: $0.key, contents: Data($0.value.utf8)) })
    }

    @Test func `a collection of Bruno becomes a manifest that passes`() async throws {
        let manifest = try manifest(files)
        // A check with a template within a text and one with a query are left out.
        #expect(manifest.contains("# not expressed: res(\"x\"): eq 1"), "\(manifest)")
        let result = try await run(manifest)
        let failures = result.failures.flatMap(\.failures)
        #expect(failures.count == 0, "\(failures) \(manifest)")
        #expect(server.requests.map(\.target) == ["/echo", "/login", "/items/7?b=s3cret"])
        #expect(server.requests.first?.headers["Authorization"] == "Basic YWRhOnMzY3JldA==")
        #expect(server.requests.first?.text == "a=1")
    }

    @Test func `the lines of a disabled value are not read as values`() throws {
        let headers = "headers {\n  ~x-note: '''\n    Authorization: Bearer old\n  '''\n  X-A: 1\n}\n"
        let manifest = try manifest(["a.bru": "get {\n  url: http://a.test/\n}\n\(headers)"])
        #expect(!manifest.contains("Bearer") && manifest.contains("X-A"), "\(manifest)")
    }

    @Test func `a second value of a variable is a note, and a variable of a check is declared`() throws {
        func file(_ id: Int) -> String {
            "get {\n  url: http://a.test/{{id}}\n}\nvars:pre-request {\n  id: \(id)\n}\n"
                + "script:post-response {\n  expect(res.body.owner).to.equal(bru.getEnvVar('owner'))\n}\n"
        }
        let manifest = try manifest(["a.bru": file(1), "b.bru": file(2)])
        #expect(manifest.contains("# not expressed: id = 2"), "\(manifest)")
        var inputs = WorkflowInputs(environment: [:])
        inputs.variables["owner"] = "ada"
        #expect(throws: Never.self) { try Workflow(parsing: Data(manifest.utf8), name: "m", inputs: inputs) }
    }

    @Test(
        arguments: [
            ("get {\n  url: x\n", "a.bru: line 1: the block is not closed"),
            ("hello\n", "a.bru: line 1: expected a block, such as headers {"),
            ("meta {\n}\n", "the collection has no requests"),
        ]) func `a file that is not of Bruno is rejected`(_ text: String, _ message: String)
    {
        let problem = #expect(throws: BrunoReader.Problem.self) { try manifest(["a.bru": text]) }
        #expect(problem?.description == message)
    }
}
