import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyWorkflow

/// Runs the manifests of `Sources/Examples/Workflows`.
@Suite(.serialized) struct ExampleWorkflowTests {
    static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Sources/Examples/Workflows")

    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func run(
        _ name: String, at url: URL, variables: [String: String] = [:],
        _ change: (inout WorkflowRun.Options) -> Void = { _ in }
    ) async throws -> WorkflowResult {
        var inputs = WorkflowInputs(environment: ["API": url.absoluteString, "PASSWORD": SmallAPI.password])
        inputs.variables = variables.mapValues(WorkflowInputs.value)
        let workflow = try Workflow(contentsOf: Self.folder.appendingPathComponent("\(name).yaml"), inputs: inputs)
        var options = WorkflowRun.Options()
        options.directory = directory.url
        change(&options)
        return await (try WorkflowRun(workflow, options: options)).run()
    }

    private func requireSuccess(_ result: WorkflowResult) throws {
        try #require(result.failures.isEmpty, "\(result.failures.map { "\($0.name): \($0.failures)" })")
    }

    @Test func `the directory contains ten examples`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(names.count { $0.hasSuffix(".yaml") } == 10)
    }

    @Test func `the login example signs in and out`() async throws {
        let api = try SmallAPI(items: 3)
        try requireSuccess(try await run("login", at: api.server.url))
        #expect(api.server.requests.map(\.path) == ["/login", "/me", "/logout"])
    }

    @Test func `the fan-out example requests 200 captured IDs`() async throws {
        let api = try SmallAPI(items: 200)
        let result = try await run("fan-out", at: api.server.url)
        try requireSuccess(result)
        #expect(result.outcomes.count == 202)
        let names = (1...200).map { "\"item \($0)\"" }.joined(separator: ",")
        #expect(api.server.requests.last?.text == "{\"names\":[\(names)]}")
    }

    @Test func `the pages example follows all pages`() async throws {
        let api = try SmallAPI(items: 3)
        try requireSuccess(try await run("pages", at: api.server.url))
        #expect(api.server.requests.count == 6)
        #expect(api.server.requests.last?.text.hasPrefix(#"{"ids":[0,1,2"#) == true)
        #expect(api.server.requests.last?.text.contains("48,49]") == true)
    }

    @Test(.enabled(if: Httpbin.isInstalled, "\(Httpbin.installHint)"))
    func `the smoke example succeeds against httpbin`() async throws {
        let httpbin = try Httpbin()
        try requireSuccess(try await run("smoke", at: httpbin.url))
    }

    @Test func `the export example resumes with the missing file`() async throws {
        let api = try SmallAPI(items: 30)
        let journal = directory.url.appendingPathComponent("journal")
        try requireSuccess(try await run("export", at: api.server.url) { $0.journal = journal })
        #expect(api.server.requests.count == 32)
        try FileManager.default.removeItem(at: directory.url.appendingPathComponent("reports/9.bin"))
        let again = try await run("export", at: api.server.url) { ($0.journal, $0.resumes) = (journal, true) }
        try requireSuccess(again)
        #expect(api.server.requests.dropFirst(32).map(\.path) == ["/login", "/files/9"])
        #expect(again.outcomes.count { $0.state == .kept } == 30)
        for id in 1...30 {
            let data = try Data(contentsOf: directory.url.appendingPathComponent("reports/\(id).bin"))
            #expect(data == PatternBytes.data(count: 1000 + id))
        }
    }

    @Test func `the upload-job example uploads, polls and downloads the result`() async throws {
        let api = try SmallAPI(items: 3)
        let file = directory.url.appendingPathComponent("picture.png")
        try PatternBytes.data(count: 100).write(to: file)
        try requireSuccess(try await run("upload-job", at: api.server.url, variables: ["file": file.path]))
        #expect(api.server.requests.count { $0.path == "/jobs/j1" } == 4)
        #expect(try Data(contentsOf: directory.url.appendingPathComponent("result.bin")) == PatternBytes.data(count: 1007))
    }

    @Test func `the teardown example runs its teardown after a failure`() async throws {
        let api = try SmallAPI(items: 3)
        let result = try await run("teardown", at: api.server.url)
        #expect(result.outcomes.map(\.state) == [.succeeded, .failed, .succeeded, .succeeded])
        #expect(api.server.requests.last?.text == #"{"failed":true}"#)
    }

    @Test(.enabled(if: Nginx.isInstalled, "\(Nginx.installHint)"))
    func `the links example downloads the files linked from an nginx page`()
        async throws
    {
        let nginx = try Nginx()
        _ = try nginx.add(Data("<a href='one.txt'>1</a> <a href='two.txt'>2<a href='../up'>".utf8), as: "index.html")
        _ = try nginx.add(Data("1".utf8), as: "one.txt")
        _ = try nginx.add(Data("22".utf8), as: "two.txt")
        try requireSuccess(try await run("links", at: nginx.url))
        #expect(try String(contentsOf: directory.url.appendingPathComponent("files/two.txt"), encoding: .utf8) == "22")
    }

    @Test func `the events example waits for a server-sent event`() async throws {
        let api = try SmallAPI(items: 3)
        try requireSuccess(try await run("events", at: api.server.url))
        #expect(try Data(contentsOf: directory.url.appendingPathComponent("artifact.bin")) == PatternBytes.data(count: 1007))
    }

    @Test func `the data example uses the values of a row`() async throws {
        let api = try SmallAPI(items: 3)
        try requireSuccess(try await run("data", at: api.server.url, variables: ["name": "bob", "expected": "404"]))
        #expect(api.server.requests.last?.text == #"{"name":"bob","seen":404,"expected":404}"#)
    }
}
