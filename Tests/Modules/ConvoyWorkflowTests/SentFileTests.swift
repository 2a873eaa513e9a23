import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Files that requests send, including files named by responses, and pipes and other special files.
@Suite struct SentFileTests {
    let bench: WorkflowBench
    var folder: URL { bench.directory.url }

    init() throws {
        bench = try WorkflowBench()
        bench.server.route("POST", "/take", .text("x"))
        let manager = FileManager.default
        try manager.createDirectory(at: folder.appendingPathComponent("data/sub"), withIntermediateDirectories: true)
        for name in ["secret.txt", "data/good.txt", "data/sub/deep.txt", "data/caf\u{E9}.txt"] {
            try Data(name.utf8).write(to: folder.appendingPathComponent(name))
        }
        try manager.createSymbolicLink(atPath: folder.path + "/data/link.txt", withDestinationPath: "../secret.txt")
        try manager.createSymbolicLink(atPath: folder.path + "/data/inner.txt", withDestinationPath: "good.txt")
    }

    @Test(
        arguments: [
            ("file: good.txt", nil), ("file: sub/../good.txt", nil), ("file: inner.txt", nil),
            ("file: DIR/data/good.txt", nil),
            ("multipart: {f: {file: sub/deep.txt}}", nil), ("json: \"${file('good.txt')}\"", nil),
            ("text: x, expect: [\"body != file('good.txt')\"]", nil), ("file: \"${dot}/good.txt\"", nil),
            ("file: ../secret.txt", "outside --file-root"), ("file: link.txt", "outside --file-root"),
            ("file: /etc/passwd", "outside --file-root"), ("multipart: {f: {file: DIR/secret.txt}}", "outside --file-root"),
            ("json: \"${file('../secret.txt')}\"", "outside --file-root"),
            ("file: \"${dot}./secret.txt\"", "outside --file-root"),
            ("text: x, expect: [\"body != file('link.txt')\"]", "outside --file-root"), ("file: secret.txt", "cannot read"),
        ] as [(String, String?)])
    func `with a file root, relative paths start there and other files are rejected`(
        _ body: String, _ message: String?
    ) async throws {
        var inputs = WorkflowInputs(environment: [:])
        inputs.fileRoot = folder.appendingPathComponent("data", isDirectory: true)
        let text = """
            baseURL: \(bench.server.url.absoluteString)
            variables: {dot: .}
            requests: {a: {post: take, \(body.replacing("DIR", with: folder.path))}}
            """
        var failure: String?
        do {
            let workflow = try Workflow(parsing: Data(text.utf8), name: "m", inputs: inputs)
            failure = await (try WorkflowRun(workflow)).run().failures.first?.failures.joined()
        } catch let error as ManifestError {
            failure = error.message
        }
        if let message {
            #expect(failure?.contains(message) == true, "\(failure ?? "")")
            #expect(bench.server.requests.allSatisfy { !$0.text.contains("secret") && !$0.text.contains("root:") })
        } else {
            #expect(failure == nil && bench.server.requests.count == 1)
        }
    }

    static let places = ["file: PATH", "multipart: {f: {file: PATH}}", "multipart: {f: [{file: PATH}, {file: PATH}]}"]
    static let hostile = [
        "../secret.txt", "/etc/passwd", "..", ".", "sub/../../secret.txt", "..\\secret.txt", "sub/deep.txt", "link.txt",
        "good.txt\0.png", "~", "~root", "/\u{301}../secret.txt", "%2e%2e/secret.txt", "cafe\u{301}.txt", "",
    ]

    private func send(_ value: String, _ place: String) async throws -> WorkflowBench.Finished {
        let json = String(decoding: try JSONEncoder().encode(["v": value]), as: UTF8.self)
        bench.server.route("/name", .json(text: json))
        let path = "\"\(folder.path)/data/${a.v}\""
        return try await bench.run(
            "requests: {a: {get: name, capture: {v: json:/v}}, b: {post: take, \(place.replacing("PATH", with: path))}}")
    }

    @Test(arguments: hostile, places)
    func `a response cannot name a file in another directory`(value: String, place: String) async throws {
        let finished = try await send(value, place)
        #expect(finished.states["b"] == "failed", "\(value)")
        #expect(bench.server.requests.filter { $0.method == "POST" }.isEmpty)
        #expect(try !finished.failure("b").isEmpty)
    }

    @Test(arguments: ["good.txt", "inner.txt"], places)
    func `a response can name a file in the same directory`(value: String, place: String) async throws {
        let finished = try await send(value, place)
        #expect(finished.states["b"] == "succeeded", "\(finished.result.failures.map(\.failures))")
        let sent = try #require(bench.server.requests.last)
        #expect(sent.text.contains("data/good.txt"))
    }

    @Test func `the output of another request can be sent`() async throws {
        bench.server.route("/name", .text("contents"))
        let finished = try await bench.run(
            "requests: {a: {get: name, output: sub/out.txt}, b: {post: take, file: \"${a.file}\"}}")
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(bench.server.requests.last?.text == "contents")
    }

    @Test func `a pipe can be sent, but a directory cannot`() async throws {
        let pipe = folder.appendingPathComponent("pipe").path
        #expect(mkfifo(pipe, 0o600) == 0)
        let writer = Thread {
            let handle = FileHandle(forWritingAtPath: pipe)
            try? handle?.write(contentsOf: Data("through a pipe".utf8))
            try? handle?.close()
        }
        writer.start()
        let finished = try await bench.run("requests: {b: {post: take, file: \"\(pipe)\"}}")
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(bench.server.requests.last?.text == "through a pipe")
        let other = try await bench.run("requests: {b: {post: take, file: \"\(folder.path)\"}}")
        #expect(try other.failure("b").hasSuffix("Is a directory"))
    }

    @Test(arguments: [
        "file: \"a\\0b\"", "multipart: {f: {file: \"a\\0b\"}}", "cacert: \"a\\0b\"", "cert: \"a\\0b\"",
        "crl-file: \"a\\0b\"",
        "netrc-file: \"a\\0b\"", "unix-socket: \"a\\0b\"", "output: \"a\\0b\"", "output: ../x", "output: /x", "output: x/",
        "output: \"x/../../y\"",
    ])
    func `an invalid path in the manifest is an error`(key: String) {
        #expect(throws: ManifestError.self) { try bench.workflow("requests: {a: {post: take, \(key)}}") }
    }

    @Test func `a tilde in a path is not expanded`() async throws {
        bench.server.route("/name", .text("contents"))
        let finished = try await bench.run("requests: {a: {get: name, output: \"~/out.txt\"}}") { $0.directory = folder }
        #expect(finished.result.failures.isEmpty, "\(finished.result.failures.map(\.failures))")
        #expect(FileManager.default.fileExists(atPath: folder.path + "/~/out.txt"))
        #expect(OutputDirectory(URL(fileURLWithPath: "."), replaces: false).file("~/x").path.hasSuffix("/~/x"))
    }
}
