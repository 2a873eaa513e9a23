import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyTool

/// The whole way from a file of another program to a run: `convoy import`, `check` and `run`.
@Suite(.serialized) struct ImportRunTests {
    let server: TestServer
    let scratch: Scratch
    private var host: String { server.url.absoluteString }

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route("POST", "/login") { request in
            request.text.contains("ada") ? .json(text: #"{"token": "tok-1234567", "id": 7}"#) : .status(401)
        }
        server.route("/items/*") { request in
            .json(text: "{\"path\": \"\(request.target)\", \"auth\": \"\(request.headers["Authorization"] ?? "")\"}")
        }
    }

    /// Imports a file, checks the manifest, and runs it.
    private func run(
        _ arguments: [String], environment: [String: String] = [:], variables: [String] = []
    ) async throws -> ToolProcess.Result {
        let imported = try await ToolProcess.run(["import"] + arguments, in: scratch.url)
        #expect(imported.status == 0 && imported.errors.isEmpty, "\(imported.errors)")
        try scratch.write(imported.output, to: "m.yaml")
        let values = variables.flatMap { ["--var", $0] }
        let checked = try await ToolProcess.run(["check"] + values + ["m.yaml"], in: scratch.url, environment: environment)
        #expect(checked.status == 0 && checked.output.hasSuffix("no mistakes\n"), "\(checked.errors)\(imported.output)")
        let result = try await ToolProcess.run(["run"] + values + ["m.yaml"], in: scratch.url, environment: environment)
        #expect(result.status == 0, "\(result.errors)\(imported.output)")
        return result
    }

    private var targets: [String] { server.requests.map { "\($0.method) \($0.target)" } }

    @Test func `a collection of Postman`() async throws {
        try scratch.write(
            """
            {"info": {"name": "API", "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"},
             "variable": [{"key": "host", "value": "\(host)"}],
             "auth": {"type": "bearer", "bearer": [{"key": "token", "value": "{{token}}"}]},
             "item": [
              {"name": "Log in", "request": {"method": "POST", "auth": {"type": "noauth"}, "url": "{{host}}/login",
                "body": {"mode": "raw", "raw": "{\\"user\\": \\"{{user}}\\"}", "options": {"raw": {"language": "json"}}}},
               "event": [{"listen": "test", "script": {"exec": [
                 "pm.test('status', () => { pm.response.to.have.status(200); });",
                 "pm.collectionVariables.set('token', pm.response.json().token);"]}}]},
              {"name": "Items", "item": [
               {"name": "Get item", "request": {"method": "GET", "url": {"raw": "{{host}}/items/7?a=1"}},
                "event": [{"listen": "test", "script": {"exec": [
                  "pm.test('auth', () => pm.expect(pm.response.json().auth).to.eql('Bearer tok-1234567'));"]}}]}]}]}
            """, to: "api.postman_collection.json")
        _ = try await run(["postman", "api.postman_collection.json"], variables: ["user=ada"])
        #expect(targets == ["POST /login", "GET /items/7?a=1"])
        #expect(try scratch.text("m.yaml").contains("json.auth == 'Bearer tok-1234567'"))
    }

    @Test func `a collection of Bruno`() async throws {
        try scratch.makeDirectory("api/users")
        try scratch.makeDirectory("api/environments")
        try scratch.write("vars {\n  host: \(host)\n}\n", to: "api/environments/local.bru")
        try scratch.write("auth {\n  mode: bearer\n}\n\nauth:bearer {\n  token: {{token}}\n}\n", to: "api/collection.bru")
        try scratch.write(
            """
            meta {
              name: Log in
              type: http
              seq: 1
            }

            post {
              url: {{host}}/login
              body: json
              auth: none
            }

            body:json {
              {"user": "{{process.env.WHO}}"}
            }

            vars:post-response {
              token: res.body.token
            }

            """, to: "api/users/login.bru")
        try scratch.write(
            """
            meta {
              name: Item
              type: http
              seq: 2
            }

            get {
              url: {{host}}/items/7
              auth: inherit
            }

            assert {
              res.status: eq 200
              res.body.auth: eq Bearer tok-1234567
            }

            """, to: "api/users/item.bru")
        _ = try await run(["bruno", "api"], environment: ["WHO": "ada"])
        #expect(targets == ["POST /login", "GET /items/7"])
    }

    @Test func `a file of Hurl`() async throws {
        try scratch.write(
            """
            POST \(host)/login
            {"user": "{{user}}"}
            HTTP 200
            [Captures]
            token: jsonpath "$.token"

            GET \(host)/items/7
            Authorization: Bearer {{token}}
            HTTP 200
            [Asserts]
            jsonpath "$.auth" == "Bearer tok-1234567"
            """, to: "api.hurl")
        _ = try await run(["hurl", "api.hurl"], variables: ["user=ada"])
        #expect(targets == ["POST /login", "GET /items/7"])
    }

    @Test func `a curl command`() async throws {
        let command = "curl -u ada:s3cret-pw --json '{\"user\": \"ada\"}' \(host)/login"
        _ = try await run(["curl", command], environment: ["PASSWORD": "s3cret-pw"])
        #expect(try !scratch.text("m.yaml").contains("s3cret-pw"))
        let request = try #require(server.requests.first)
        #expect(request.headers["Authorization"] == "Basic YWRhOnMzY3JldC1wdw==" && request.text == #"{"user":"ada"}"#)
    }

    @Test func `an HTTP Archive`() async throws {
        let entries = [
            #"{"request": {"method": "POST", "url": "HOST/login", "headers": [], "postData": {"mimeType": "application/json", "text": "{\"user\":\"ada\"}"}}, "response": {"status": 200}}"#,
            #"{"request": {"method": "GET", "url": "HOST/items/7", "headers": [{"name": "Authorization", "value": "Bearer tok-1234567"}]}, "response": {"status": 200}}"#,
        ]
        try scratch.write(
            "{\"log\": {\"entries\": [\(entries.joined(separator: ","))]}}".replacing("HOST", with: host), to: "api.har")
        _ = try await run(["har", "api.har"], environment: ["TOKEN": "tok-1234567"])
        #expect(targets == ["POST /login", "GET /items/7"])
        #expect(server.requests.last?.headers["Authorization"] == "Bearer tok-1234567")
        #expect(try !scratch.text("m.yaml").contains("tok-1234567"))
    }
}
