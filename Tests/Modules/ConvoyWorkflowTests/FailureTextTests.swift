import ConvoyDownloads
import ConvoyTestServer
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Failure messages, which address the authors of manifests.
@Suite struct FailureTextTests {
    let bench: WorkflowBench
    var server: TestServer { bench.server }

    init() throws { bench = try WorkflowBench() }

    /// Returns whether a text contains names of Swift types, or domains and numbers of errors.
    private static func hasInternals(_ text: String) -> Bool {
        let patterns = [
            #"Domain\b"#, #"\b[Ee]rror -?[0-9]+"#, #"Error -?[0-9]+\)"#, #"\bConvoy[A-Z]"#, #"\bNS[A-Z][a-z]"#, #"Swift\."#,
            #"\bOptional\("#, #"\bURLError\b"#, #"\berror:[0-9A-F]{8}:"#, #"\bredirectHandler\b"#, "File URL", #"\bCode\("#,
            #"The operation could not be completed"#, #"_Bridged"#,
        ]
        return patterns.contains { (try? Pattern.matches($0, text)) == true }
    }

    @Test(arguments: [
        "(NSURLErrorDomain -1001)", "(ConvoyDownloads.DownloadError 1)", "Swift.CancellationError error 1.",
        "URLError(_nsError: x)", "OpenSSL/3.0.19: error:0A00010B:SSL routines::wrong version number",
        "File URL not reachable.", "Set sendsBodiesAcrossOrigins, or a redirectHandler, to allow that.",
        "The operation could not be completed. (NSPOSIXErrorDomain error 2.)",
    ])
    func `internal error texts are recognized`(text: String) { #expect(Self.hasInternals(text)) }

    @Test(arguments: [
        (
            "No. (https://a.test/) OpenSSL/3.0.19: error:0A00010B:SSL routines::wrong version number (a.test)",
            "No. (https://a.test/) The server does not use TLS on this port: try http:// instead of https://. (a.test)"
        ),
        ("TLS connect error: error:0A000126:SSL routines::unexpected eof", "TLS failed: unexpected eof."),
        (
            "The body was not sent. Set sendsBodiesAcrossOrigins, or a redirectHandler, to allow that. http://a.test/",
            "The body was not sent. Send the request to that server directly. http://a.test/"
        ),
        ("Unauthorized. Set the operation's credential.", "Unauthorized. Use --user, or the key user of a manifest."),
        (
            "No. (NSCocoaErrorDomain error -512.) x",
            "No. A file cannot be read or written: check its path and permissions. x"
        ),
        ("(NSCocoaErrorDomain error x.)", "(NSCocoaErrorDomain error x.)"), ("a: error:b", "a: error:b"), ("", ""),
    ])
    func `words of programmers are replaced`(_ text: String, _ expected: String) {
        #expect(PlainWords.of(text) == expected)
    }

    @Test(
        .timeLimit(.minutes(1)),
        arguments: ["long ", ".", "OpenSSL/: error:", "redirectHandler ", "(NSCocoaErrorDomain error "])
    func `long texts take linear time`(_ piece: String) {
        #expect(!PlainWords.of(String(repeating: piece, count: 100_000)).isEmpty)
    }

    private func serveFaults() {
        server.route("/x", .text("x"))
        server.route("/reset", .pattern(count: 1000).resets(afterBytes: 10))
        server.route("/nothing", .text("x").resetBeforeHead())
        server.route("/cut", .pattern(count: 1000).truncated(afterBytes: 10))
        server.route("/stall", .pattern(count: 1000).stalls(afterBytes: 10))
        server.route("/raw", .raw("nonsense\r\n\r\n"))
        server.route("/gzip", .bytes(Data("no gzip".utf8)).header("Content-Encoding", "gzip"))
        server.route("/head", .raw("HTTP/1.1 200 OK\r\nX: \(String(repeating: "x", count: 400_000))\r\n\r\n"))
        server.route("/empty", .status(204))
        server.redirect("/loop", to: "/loop")
        server.redirect("/elsewhere", to: "ftp://a.test/")
        server.redirect("/across", to: "http://b.test/", status: 307)
        server.route("/401", .status(401, headers: ["WWW-Authenticate": "Basic realm=\"x\""]))
        server.route("/json", .json(text: #"{"a": "b"}"#))
    }

    @Test func `failures of a run contain no internal names or error codes`() async throws {
        serveFaults()
        let directory = bench.directory.url
        try Data("x".utf8).write(to: directory.appendingPathComponent("file"))
        try Data("x".utf8).write(to: directory.appendingPathComponent("file2"))
        try FileManager.default.createDirectory(
            at: directory.appendingPathComponent("dir"), withIntermediateDirectories: false)
        let port = server.url.port ?? 0
        let finished = try await bench.run(
            """
            variables: {nowhere: "\(directory.path)/nowhere"}
            defaults: {retry: 0, timeout: 500ms}
            requests:
              refused: {get: "http://127.0.0.1:1/"}
              name: {get: "http://name.invalid/"}
              tls: {get: "https://127.0.0.1:\(port)/"}
              proxy: {get: "http://a.test/", proxy: "http://127.0.0.1:1"}
              socket: {get: x, unix-socket: "/nowhere/socket"}
              ipv6: {get: x, ipv6: true}
              reset: {get: reset}
              nothing: {get: nothing}
              cut: {get: cut}
              cutFile: {get: cut, output: cut}
              stall: {get: stall}
              total: {get: stall, timeout: 60, max-time: 200ms}
              raw: {get: raw}
              gzip: {get: gzip}
              head: {get: head}
              loop: {get: loop}
              elsewhere: {get: elsewhere}
              across: {post: across, json: {}}
              login: {get: "401", user: "a:b"}
              empty: {get: empty, output: empty}
              sum: {get: x, output: sum, expect: {md5: "00000000000000000000000000000000"}}
              type: {get: x, output: type, expect: {type: a/b}}
              exists: {get: x, output: file}
              inFile: {get: x, output: file/x}
              isDirectory: {get: x, output: dir}
              postFile: {post: x, output: file2}
              body: {post: x, file: "${nowhere}"}
              part: {post: x, multipart: {a: {file: "${nowhere}"}}}
              directory: {post: x, file: "\(directory.path)/dir"}
              partDirectory: {post: x, multipart: {a: {file: "\(directory.path)/dir"}}}
              events: {get: x, events: {for: 1}}
              eventsCut: {get: stall, events: {for: 200ms}}
              json: {get: x, expect: {json: {/a: 1}}}
              value: {get: json, capture: {a: json:/a}}
              missing: {get: x, headers: {X: "${value.a.b}"}}
              poll: {get: x, poll: {until: "status > 300", every: 10ms, for: 20ms}}
              follow: {get: json, follow: "json:/a"}
            """)
        // A request that succeeds would not test anything.
        let expected: Set = ["value"]
        let succeeded = Set(finished.states.filter { $0.value == "succeeded" }.keys)
        #expect(succeeded == expected)
        for outcome in finished.result.outcomes {
            for text in outcome.failures { #expect(!Self.hasInternals(text), "\(outcome.id): \(text)") }
        }
        // These texts are written for people, so they are compared literally.
        #expect(try finished.failure("part") == "cannot read \"\(directory.path)/nowhere\": No such file or directory")
        #expect(try finished.failure("tls").hasPrefix("The server does not use TLS on this port: try http:// instead"))
        #expect(try finished.failure("across").contains("to another origin"))
        #expect(try finished.failure("directory") == "cannot read \"\(directory.path)/dir\": Is a directory")
        for id in ["exists", "inFile", "isDirectory", "postFile", "body", "part"] {
            switch try finished.outcome(id).cause {
            case .file?, .exchange(is DownloadError)?: break
            case let cause: Issue.record("\(id): \(String(describing: cause))")
            }
        }
        if ProcessInfo.processInfo.environment["CONVOY_SHOW"] != nil {
            for outcome in finished.result.outcomes { print(outcome.id, outcome.failures) }
        }
    }
}
