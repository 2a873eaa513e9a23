import ConvoySerialization
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

private let curlIsInstalled = FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

/// `aws-sigv4` and `location-trusted`.
@Suite(.serialized) struct RequestSignatureTests {
    let bench: WorkflowBench
    private var server: TestServer { bench.server }

    init() throws {
        bench = try WorkflowBench()
        server.route(nil, "*", .text("ok"))
        server.redirect("/moved", to: "/x")
    }

    /// Returns the request that curl sends, signed for the time of another request.
    private func sentByCurl(_ arguments: [String], like request: RecordedRequest) throws -> RecordedRequest {
        var arguments = ["-q", "-s", "-S"] + arguments
        for name in ["X-Amz-Date", "X-Amz-Content-SHA256", "X-Amz-Security-Token", "Content-Type"] {
            if let value = request.headers[name] { arguments += ["-H", "\(name): \(value)"] }
        }
        server.forgetRequests()
        let result = try ProcessRunner.run("/usr/bin/curl", arguments)
        return try #require(server.requests.last, "\(result.errorText)")
    }

    @Test(
        .enabled(if: curlIsInstalled, "there is no /usr/bin/curl here"),
        arguments: [
            ("get: x", ["URL/x"]), ("get: 'x?a=1&b=2'", ["URL/x?a=1&b=2"]),
            ("post: x, json: {a: 1}", ["-d", "{\"a\":1}", "URL/x"]),
            (
                "put: x/y-z.txt, file: body.txt, headers: {Content-Type: text/plain}",
                ["-X", "PUT", "-d", "12345", "URL/x/y-z.txt"]
            ),
            ("get: x/../y/./z, path-as-is: true", ["--path-as-is", "URL/x/../y/./z"]),
            ("delete: x, headers: {X-Amz-Security-Token: session-token-1}", ["-X", "DELETE", "URL/x"]),
        ], ["execute-api", "s3"])
    func `a signature equals that of curl`(_ request: (String, [String]), service: String) async throws {
        try bench.directory.write(Data("12345".utf8), to: "body.txt")
        let text = request.0.replacing("body.txt", with: bench.directory.file("body.txt").path)
        let run = try await bench.run(
            """
            requests:
              a: {\(text), aws-sigv4: "aws:amz:eu-west-1:\(service)", user: "AKIDEXAMPLE:${env.SECRET}"}
            """, environment: ["SECRET": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"])
        #expect(run.result.failures.isEmpty, "\(run.result.failures)")
        let sent = try #require(server.requests.last)
        let signature = try #require(sent.headers["Authorization"])
        let url = server.url.absoluteString
        let other = try sentByCurl(
            ["--aws-sigv4", "aws:amz:eu-west-1:\(service)", "-u", "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"]
                + request.1.map { $0.replacing("URL", with: url) }, like: sent)
        #expect(other.text == sent.text)
        #expect(other.headers["Authorization"] == signature)
    }

    @Test func `each attempt and each redirect on a server is signed, and no other server receives a signature`()
        async throws
    {
        let other = try TestServer()
        other.route("/y", .text("elsewhere"))
        server.redirect("/away", to: other.url("/y").absoluteString)
        let tries = Counter()
        server.route("/busy") { _ in tries.next() < 2 ? .status(503) : .text("ok") }
        let run = try await bench.run(
            """
            defaults: {aws-sigv4: "aws:amz:${env.REGION}:foo", user: "key:secret-key"}
            requests:
              a: {get: moved}
              b: {get: away}
              c: {get: busy, retry: 1}
              d: {get: x, bearer: token-of-d}
            """, environment: ["REGION": "eu-west-1"])
        #expect(run.result.failures.isEmpty, "\(run.result.failures)")
        let requests = server.requests
        for path in ["/moved", "/away", "/busy"] {
            for request in requests where request.path == path {
                #expect(request.headers["Authorization"]?.hasPrefix("AWS4-HMAC-SHA256 Credential=key/") == true)
            }
        }
        #expect(requests.count { $0.path == "/busy" } == 2)
        let fields = Set(requests.filter { $0.path == "/x" }.compactMap { $0.headers["Authorization"] })
        #expect(fields.count == 2 && fields.contains("Bearer token-of-d"))
        #expect(fields.contains { $0.contains("/eu-west-1/foo/aws4_request") })
        let elsewhere = try #require(other.requests.first)
        #expect(elsewhere.headers["Authorization"] == nil && elsewhere.headers["X-Amz-Date"] == nil)
    }

    @Test func `a signed body reaches another server with location-trusted only`() async throws {
        let other = try TestServer()
        other.route(nil, "/y", .text("ok"))
        server.route(nil, "/away", .redirect(to: other.url("/y").absoluteString, status: 307))
        let run = try await bench.run(
            """
            defaults: {aws-sigv4: "aws:amz:eu-west-1:foo", user: "key:secret-key"}
            requests:
              a: {post: away, text: confidential}
              b: {post: away, text: open, location-trusted: true}
            """)
        #expect(run.states["a"] == "failed" && run.states["b"] == "succeeded", "\(run.result.failures)")
        #expect(other.requests.map(\.text) == ["open"])
    }

    @Test func `redirects to other servers keep the fields and the body with location-trusted only`() async throws {
        let other = try TestServer()
        other.route(nil, "/y") {
            .text("\($0.headers["Authorization"] ?? "none") \($0.headers["X-Own"] ?? "none") \($0.text)")
        }
        server.route(nil, "/away", .redirect(to: other.url("/y").absoluteString, status: 307))
        let run = try await bench.run(
            """
            requests:
              a:
                post: away
                basic: {user: bob, password: secret}
                headers: {X-Own: one}
                text: hello
                location-trusted: true
                expect: ["body == 'Basic Ym9iOnNlY3JldA== one hello'"]
              b: {post: away, basic: {user: bob, password: secret}, text: hello}
            """)
        #expect(run.states["a"] == "succeeded", "\(run.result.failures)")
        #expect(run.states["b"] == "failed" && other.requests.count == 1)
    }

    @Test(
        arguments: [
            ("aws-sigv4: 'aws:amz:a:b'", "aws-sigv4 requires user: KEY:SECRET"),
            ("aws-sigv4: 'osc:osc', user: 'a:b'", "aws-sigv4 must be aws:amz:REGION:SERVICE"),
            ("aws-sigv4: 'aws:amz:a:b:c', user: 'a:b'", "aws-sigv4 must be aws:amz:REGION:SERVICE"),
            ("aws-sigv4: 'aws:amz:a/b', user: 'a:b'", "aws-sigv4 must be aws:amz:REGION:SERVICE"),
            ("aws-sigv4: 'aws:amz:a:b', user: 'a:b', bearer: x", "aws-sigv4 and bearer cannot be combined"),
            ("aws-sigv4: 'aws:amz:a:b', user: 'a:b', multipart: {a: b}", "aws-sigv4 and multipart cannot be combined"),
            ("location-trusted: 1", "location-trusted must be true or false, not a number"),
        ]) func `a wrong setting is a mistake`(_ keys: String, _ message: String)
    {
        let error = #expect(throws: ManifestError.self) { try bench.workflow("requests:\n  a: {get: x, \(keys)}\n") }
        #expect(error?.message == message)
    }

    @Test(
        arguments: [
            ("sqs.eu-west-1.amazonaws.com", "eu-west-1", "sqs"), ("a1b2.execute-api.eu-west-1.amazonaws.com", nil, nil),
            ("127.0.0.1", nil, nil), ("amazonaws.com", nil, nil),
        ] as [(String, String?, String?)])
    func `the name of a server may contain the region and the service`(
        _ host: String, region: String?, service: String?
    ) throws {
        let scope = try #require(SignatureScope("aws:amz"))
        guard let region else {
            #expect(throws: EvaluationError.self) { try scope.names(for: host) }
            return
        }
        let names = try scope.names(for: host)
        #expect(names.region == region && names.service == service)
    }

    @Test(
        arguments: [
            ("curl --aws-sigv4 aws:amz:eu-west-1:foo -u AK:secret-key-1 URL/x", "user: \"AK:${env.PASSWORD}\"", nil),
            (
                "curl --aws-sigv4 \"aws:amz:$REGION:foo\" -u \"AK:$KEY\" URL/x", "aws-sigv4: \"aws:amz:${env.REGION}:foo\"",
                nil
            ),
            (
                "curl --aws-sigv4 osc:osc:eu:foo -u AK:secret-key-1 URL/x", nil,
                "--aws-sigv4: left out, and the login with it"
            ),
            ("curl --aws-sigv4 aws:amz:eu:foo URL/x", nil, "--aws-sigv4: left out, and the login with it"),
            ("curl --aws-sigv4 aws:amz:eu:foo -F a=b -u AK:secret-key-1 URL/x", nil, "--aws-sigv4: left out"),
            ("curl --aws-sigv4 aws:amz:eu:foo -u AK:k -H 'Authorization: x' URL/x", nil, "--aws-sigv4: left out"),
        ] as [(String, String?, String?)])
    func `a signed curl command is imported, or its login is left out`(
        _ command: String, line: String?, note: String?
    ) async throws {
        var drafts = try CurlCommandLine.drafts(command.replacing("URL", with: server.url.absoluteString))
        var secrets = SecretVariables()
        secrets.hide(in: &drafts)
        let text = RequestDraft.manifest(drafts)
        #expect(!text.contains("secret-key-1") && text.contains(line ?? note ?? ""), "\(text)")
        let environment = secrets.values.merging(["REGION": "eu-west-1", "KEY": "k", "PASSWORD": "k"]) { one, _ in one }
        let inputs = WorkflowInputs(environment: environment)
        let workflow = try Workflow(parsing: Data(text.utf8), name: "m", inputs: inputs)
        _ = await (try WorkflowRun(workflow)).run()
        let field = try #require(server.requests.last).headers["Authorization"]
        if line == nil { #expect(field == nil || field == "x") } else { #expect(field?.hasPrefix("AWS4-") == true) }
    }

    @Test func `a secret key is masked, and not sent to a server that only a response names`() async throws {
        let other = try TestServer()
        other.route("/y", .text("ok"))
        server.route("/list", .json(text: #"{"next": "\#(other.url("/y").absoluteString)"}"#))
        let run = try await bench.run(
            """
            defaults: {aws-sigv4: "aws:amz:eu-west-1:foo", user: "key:secret-key-1"}
            requests:
              a: {get: list, capture: {next: "json:/next"}}
              b: {get: "${a.next}"}
            """)
        #expect(other.requests.first?.headers["Authorization"] == nil)
        #expect(run.run.preview().allSatisfy { !$0.contains("secret-key-1") })
        #expect(run.run.secrets.masked("secret-key-1") == "***")
    }
}
