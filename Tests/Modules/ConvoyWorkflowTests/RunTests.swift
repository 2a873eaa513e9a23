import ConvoyOperations
import ConvoySecurity
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyWorkflow

@Suite struct RunTests {
    let bench: WorkflowBench
    var server: TestServer { bench.server }

    init() throws { bench = try WorkflowBench() }

    @Test func `a captured token is sent with the next request`() async throws {
        server.route("POST", "/login", .json(text: #"{"token": "t 1", "user": {"name": "Ada"}}"#))
        server.echo(at: "/me")
        let finished = try await bench.run(
            """
            variables: {user: ada}
            requests:
              me:
                get: me
                bearer: ${login.token}
                headers: {X-Name: "${login.name}"}
                query: {user: "${user}", of: "${login.user.name}"}
              login:
                post: login
                json: {user: "${user}", n: 1}
                capture: {token: "json:/token", user: "json:/user", name: "json:/user/name"}
            """)
        #expect(finished.states == ["login": "succeeded", "me": "succeeded"])
        #expect(finished.log == ["began login", "finished login", "began me", "finished me"])
        let requests = server.requests
        try #require(requests.count == 2)
        #expect(requests[0].text == #"{"user":"ada","n":1}"#)
        #expect(requests[1].headers["Authorization"] == "Bearer t 1")
        #expect(requests[1].headers["X-Name"] == "Ada")
        #expect(requests[1].target == "/me?user=ada&of=Ada")
    }

    @Test func `each kind of capture extracts its value`() async throws {
        server.route(
            "/page",
            .bytes(Data(#"<html><body><a href="/one">1<a href="/two">2<p>code 4711-x"#.utf8), type: "text/html")
                .header("ETag", "\"e\"").header("Set-Cookie", "session=s1; Path=/"))
        server.redirect("/old", to: "/page")
        server.route("/xml", .bytes(Data("<r xmlns:a='urn:a'><a:v>7</a:v></r>".utf8), type: "application/xml"))
        server.echo(at: "/echo")
        let finished = try await bench.run(
            """
            requests:
              page:
                get: old
                capture:
                  links: "xpath://a/@href"
                  count: "xpath:count(//a)"
                  tag: header:etag
                  code: "text:code ([0-9]+)"
                  all: {text: "code [0-9]+-x", group: 0}
                  cookie: cookie:session
                  status: status
                  url: url
              xml: {get: xml, capture: {v: "xpath:/r/a:v"}}
              echo:
                post: echo
                json: {links: "${page.links}", tag: "${page.tag}", code: "${page.code}", all: "${page.all}", cookie: "${page.cookie}", status: "${page.status}", url: "${page.url}", v: "${xml.v}", count: "${page.count}"}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        let text = try #require(server.requests.last { $0.path == "/echo" }?.text)
        #expect(
            text
                == #"{"links":["/one","/two"],"tag":"\"e\"","code":"4711","all":"code 4711-x","cookie":"s1","status":200,"url":"\#(server.url("/page").absoluteString)","v":["7"],"count":["2"]}"#
        )
    }

    @Test func `a capture that finds nothing fails the request and skips its dependents`() async throws {
        server.route("/a", .json(["x": 1]))
        let finished = try await bench.run(
            """
            requests:
              a: {get: a, capture: {t: "json:/token", h: "header:X-No"}}
              b: {get: "b/${a.t}"}
              c: {get: a}
            """)
        #expect(finished.states == ["a": "failed", "b": "skipped", "c": "succeeded"])
        #expect(
            try finished.failure(
                "a") == "capture t: nothing found at json:/token | capture h: nothing found at header:X-No"
        )
        #expect(try finished.failure("b") == #"not sent, because "a" failed"#)
    }

    @Test func `all failed expectations are reported with the actual values`() async throws {
        server.route("/a", .json(text: #"{"state":"bad","n":3,"list":["x","yy"]}"#, status: 500).header("X-A", "b"))
        let finished = try await bench.run(
            """
            requests:
              a:
                get: a
                expect:
                  status: [200-204, 301]
                  type: text/html
                  header: {X-A: c, X-B: {exists: true}, x-a: {matches: "^z"}}
                  json: {/state: good, /n: 4, /list/*: {matches: "^.$"}, /no: {exists: true}, /n: {equals: 3}}
                  maxBytes: 5
            """.replacing("/n: {equals: 3}", with: "/list/0: {equals: x}"))
        let failures = try finished.outcome("a").failures
        #expect(failures.first?.hasPrefix("status: expected 200-204, 301, got 500, with ") == true)
        #expect(
            Array(failures.dropFirst())
                == [
                    "type: expected text/html, got application/json", #"header X-A: expected "c", got "b""#,
                    "header X-B: expected one, got none", #"header x-a: expected a match for "^z", got "b""#,
                    "size: expected at most 5 bytes, got 39", #"json /state: expected "good", got "bad""#,
                    "json /n: expected 4, got 3", #"json /list/* [1]: expected a match for "^.$", got "yy""#,
                    "json /no: expected a value, got none",
                ])
    }

    @Test func `the body of an expected error is written to the output without a retry`() async throws {
        server.route("/gone", .text("no such thing", status: 404))
        let finished = try await bench.run("requests:\n  a: {get: gone, expect: {status: [200, 404]}, output: a.txt}\n")
        #expect(finished.states == ["a": "succeeded"])
        #expect(server.requests.count == 1)
        #expect(
            try String(contentsOf: bench.directory.url.appendingPathComponent("a.txt"), encoding: .utf8) == "no such thing")
    }

    @Test func `an output that is a symbolic link is rejected`() async throws {
        server.route("/a", .text("x"))
        let outside = try TemporaryDirectory()
        let target = outside.url.appendingPathComponent("target")
        let link = bench.directory.url.appendingPathComponent("a.txt")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: target)
        let finished = try await bench.run("requests:\n  a: {get: a, output: a.txt}\n") { $0.replacesFiles = true }
        #expect(finished.states == ["a": "failed"])
        #expect(!FileManager.default.fileExists(atPath: target.path) && server.requests.isEmpty)
    }

    @Test func `a wildcard without matches fails, except for an empty list`() async throws {
        server.route("/items", .json(text: #"{"items": [{"id": 1}, {"id": 2, "name": "b"}], "none": []}"#))
        let finished = try await bench.run(
            """
            requests:
              typo: {get: items, capture: {ids: "json:/items/*/idd"}}
              some: {get: items, expect: {json: {"/items/*/name": {exists: true}}}}
              match: {get: items, expect: {json: {"/items/*/name": {matches: "."}}}}
              empty: {get: items, capture: {ids: "json:/none/*/id"}, expect: {json: {"/none/*/id": {exists: true}}}}
              right: {get: items, capture: {ids: "json:/items/*/id"}, expect: {json: {"/items/*/id": {matches: "[0-9]"}}}}
            """)
        #expect(
            finished.states == [
                "typo": "failed", "some": "failed", "match": "failed", "empty": "succeeded", "right": "succeeded",
            ], "\(finished.result.failures.map(\.failures))")
    }

    @Test func `a condition that is too long is rejected`() throws {
        let chain = Array(repeating: "true", count: 20_000).joined(separator: " and ")
        let error = #expect(throws: ManifestError.self) {
            try bench.workflow("requests:\n  a: {get: a, when: '\(chain)'}\n")
        }
        #expect(error?.description == "m.yaml:3:4522: when: the expression has more than 1000 words")
    }

    @Test func `secrets are masked in echoed credentials and in JSON within JSON`() async throws {
        server.route("/echo") { request in .text(request.headers["Authorization"] ?? "", status: 500) }
        server.route("POST", "/twice") { request in .json(["got": request.text], status: 500) }
        let finished = try await bench.run(
            """
            secrets: [env.PASSWORD]
            requests:
              echo: {get: echo, basic: {user: ada, password: "${env.PASSWORD}"}}
              twice: {post: twice, json: {k: "${env.PASSWORD}"}}
            """, environment: ["PASSWORD": "p\"q\\r"])
        let login = Data("ada:p\"q\\r".utf8).base64EncodedString()
        let (echo, twice) = (try finished.failure("echo"), try finished.failure("twice"))
        #expect(echo.contains("Basic ***") && !echo.contains(login), "\(echo)")
        #expect(twice.contains("***") && !twice.contains("q"), "\(twice)")
    }

    @Test func `a URL in a query does not make a reference absolute`() async throws {
        server.echo(at: "/login")
        let finished = try await bench.run("requests:\n  a: {get: 'login?next=http://b.test/'}\n")
        #expect(finished.states == ["a": "succeeded"])
        #expect(server.requests.first?.target == "/login?next=http://b.test/")
    }

    @Test func `an expected error status is a success`() async throws {
        server.route("/a", .json(["error": "gone"], status: 410))
        let finished = try await bench.run("requests: {a: {get: a, expect: {status: 410, json: {/error: gone}}}}")
        #expect(finished.states == ["a": "succeeded"])
    }

    @Test func `a teardown runs after any failure, and onFailure stop skips the other requests`() async throws {
        server.route("/bad", .status(500))
        server.route("/down", .text("x"))
        let finished = try await bench.run(
            """
            requests:
              bad: {get: bad, onFailure: stop}
              late: {get: down, after: slow}
              slow: {get: down, after: bad, when: always()}
              down: {delete: down, after: [bad, late], when: always()}
            """)
        #expect(finished.states == ["bad": "failed", "late": "skipped", "slow": "succeeded", "down": "succeeded"])
    }

    @Test func `with onFailure continue, dependents of a failed request run`() async throws {
        server.route("/bad", .status(500))
        server.route("/x", .text("x"))
        let finished = try await bench.run(
            "requests: {bad: {get: bad, onFailure: continue}, x: {get: x, after: bad}}")
        #expect(finished.states == ["bad": "failed", "x": "succeeded"])
    }

    @Test func `bodies are sent as specified`() async throws {
        server.echo(at: "/echo")
        let file = bench.directory.url.appendingPathComponent("up.bin")
        try PatternBytes.data(count: 5000).write(to: file)
        let finished = try await bench.run(
            """
            requests:
              form: {post: echo, form: {a: "x y&z", b: [1, 2], c: null}}
              text: {put: echo, after: form, text: "hällo", headers: {Content-Type: text/x}}
              file: {put: echo, after: text, file: "\(file.path)"}
              parts: {post: echo, after: file, multipart: {a: b, f: {file: "\(file.path)", name: n.bin, type: image/x}}}
              basic: {method: OPTIONS, url: echo, after: parts, basic: {user: u, password: "p:w"}}
            """)
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        let requests = server.requests
        try #require(requests.count == 5)
        #expect(requests[0].text == "a=x%20y%26z&b=1&b=2")
        #expect(requests[1].text == "hällo")
        #expect(requests[1].headers["Content-Type"] == "text/x")
        #expect(requests[2].body == PatternBytes.data(count: 5000))
        #expect(requests[3].text.contains("name=\"f\"; filename=\"n.bin\""))
        #expect(requests[4].headers["Authorization"] == "Basic \(Data("u:p:w".utf8).base64EncodedString())")
        #expect(requests[4].method == "OPTIONS")
    }

    @Test func `a checksum mismatch leaves no file`() async throws {
        server.route("/f", .pattern(count: 1000))
        let digest = MessageDigest.sha256(PatternBytes.data(count: 1000))?.map { String(format: "%02x", $0) }.joined() ?? ""
        let finished = try await bench.run(
            """
            requests:
              good: {get: f, output: good, expect: {sha256: "\(digest)", maxBytes: 1kB}}
              bad: {get: f, output: bad, expect: {sha256: "\(String(repeating: "0", count: 64))"}}
              long: {get: f, output: long, expect: {maxBytes: 999}}
              type: {get: f, output: type, expect: {type: text/html}}
              post: {post: f, output: post, expect: {sha256: "\(digest)"}}
            """)
        #expect(
            finished.states == [
                "good": "succeeded", "bad": "failed", "long": "failed", "type": "failed", "post": "succeeded",
            ], "\(finished.result.failures.map(\.failures))")
        #expect(
            try finished.failure("bad").hasPrefix("SHA-256: expected 0000")
                || finished.failure("bad").hasPrefix("sha-256: expected 0000"))
        let names = try FileManager.default.contentsOfDirectory(atPath: bench.directory.url.path).filter {
            !$0.contains(".convoy")
        }.sorted()
        #expect(names == ["good", "post"])
    }

    @Test func `a request is retried as specified`() async throws {
        server.route("/flaky", inTurn: [.status(503), .text("x")])
        server.route("/teapot", inTurn: [.status(418), .text("x")])
        let finished = try await bench.run(
            "requests: {a: {get: flaky, retry: 2}, b: {get: teapot, retry: {count: 1, on: [418]}}, c: {get: teapot, after: b}}"
        )
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(try finished.outcome("a").retryCount == 1)
    }

    @Test func `connections use the settings of the request`() async throws {
        server.route("/a", .text("x"))
        let place = try #require(server.url.port)
        let finished = try await bench.run(
            """
            defaults: {ipv4: true, max-redirs: 0}
            requests:
              resolved: {get: "http://a.test:\(place)/a", resolve: {"a.test:\(place)": 127.0.0.1}}
              other: {get: "http://b.test/a", connect-to: {"b.test:80": "127.0.0.1:\(place)"}, interface: 127.0.0.1}
              nowhere: {get: "http://[::1]:\(place)/a"}
            """)
        #expect(
            finished.states == ["resolved": "succeeded", "other": "succeeded", "nowhere": "failed"],
            "\(finished.result.failures.map(\.failures))")
        #expect(Set(server.requests.compactMap { $0.headers["Host"] }) == ["a.test:\(place)", "b.test"])
    }

    @Test func `a cancelled run finishes`() async throws {
        let gate = TestServer.Gate()
        server.route("/held", .text("x").heldBody(by: gate, afterBytes: 0))
        var options = WorkflowRun.Options()
        options.directory = bench.directory.url
        let run = try WorkflowRun(
            try bench.workflow(
                "requests: {a: {get: held}, b: {get: held, after: a}, c: {get: held, after: b, when: always()}}"),
            options: options)
        let task = Task { await run.run() }
        try await waitUntil("the request") { server.requests.count == 1 }
        run.cancel()
        let result = await task.value
        #expect(result.outcomes.map(\.state) == [.failed, .skipped, .skipped])
        gate.open()
    }
}
