import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// The example programs, run against real servers.
@Suite(.serialized) struct ExampleTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(.enabled(if: Httpbin.isInstalled, "needs \(Httpbin.installHint)"))
    func `the program in the README prints the output shown there`() throws {
        let httpbin = try Httpbin()
        defer { httpbin.stop() }
        let ended = try ExampleProgram.run("ExampleReadme", [httpbin.url.absoluteString], in: directory.url)
        #expect(ended.status == 0)
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        let printed = ended.lines.joined(separator: "\n")
        #expect(readme.contains("```\n\(printed)\n```"), "not in the README:\n\(printed)")
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `the mirror fetches missing files, and none in the second run`() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        for number in 1...12 { _ = try nginx.add(PatternBytes.data(count: number * 1000), as: "file \(number)") }
        let count = try FileManager.default.contentsOfDirectory(atPath: nginx.files.path).count
        let local = directory.url.appendingPathComponent("copy")
        let list = nginx.url("list/").absoluteString
        let first = try ExampleProgram.run("ExampleSync", [list, local.path], in: directory.url)
        #expect(first.status == 0 && first.lines == ["\(count) of \(count) files fetched, 0 unchanged"])
        for number in 1...12 {
            let file = local.appendingPathComponent("file \(number)")
            #expect(try Data(contentsOf: file) == PatternBytes.data(count: number * 1000))
        }
        let second = try ExampleProgram.run("ExampleSync", [list, local.path], in: directory.url)
        #expect(second.status == 0 && second.lines == ["0 of 0 files fetched, \(count) unchanged"])
        let missing = try ExampleProgram.run(
            "ExampleSync", [nginx.url("none/").absoluteString, local.path], in: directory.url)
        #expect(missing.status == 1 && missing.lines.first?.hasPrefix("Request failed: not found (404)") == true)
    }

    @Test func `the service client logs in and adds, lists and removes items`() throws {
        let server = try TestServer()
        server.route("POST", "/v1/login", .json(["token": "t0ken"]))
        server.route("POST", "/v1/items", .json(text: #"{"id": 7, "title": "Write a letter", "is_done": false}"#))
        server.route("GET", "/v1/items", .json(text: #"[{"id": 7, "title": "Write a letter", "is_done": false}]"#))
        server.route("DELETE", "/v1/items/7", .status(204))
        server.route("DELETE", "/v1/items/4711", .json(["reason": "item 4711 does not exist"], status: 404))
        let ended = try ExampleProgram.run("ExampleService", [server.url("/v1/").absoluteString], in: directory.url)
        #expect(ended.status == 0)
        #expect(
            ended.lines == [
                "added: 7 Write a letter", "open: Write a letter", "removed: 7",
                "the service says: item 4711 does not exist",
            ])
        let requests = server.requests
        #expect(requests.dropFirst().allSatisfy { $0.headers["Authorization"] == "Bearer t0ken" })
        #expect(requests.count == 5 && requests[1].text.contains(#""is_done":false"#))
        #expect(requests[2].query == "done=0&page=1")
    }

    @Test func `the ported program fetches a batch and reports it`() throws {
        let server = try TestServer()
        server.route("GET", "/catalogue", .bytes(Data(#"{"names":["a","b","c"]}"#.utf8), type: "application/vnd.api+json"))
        server.route("GET", "/images/*", .bytes(Data(count: 100), type: "image/png"))
        server.route("POST", "/report", .json(text: "{}", status: 201))
        let ended = try ExampleProgram.run("ExamplePort", [server.url.absoluteString], in: directory.url)
        #expect(ended.status == 0)
        #expect(
            ended.lines == [
                "catalogue: a b c", "1 of 3", "2 of 3", "3 of 3", "reported 3 images of 300 bytes: 201",
            ])
        #expect(server.requests.last?.text == #"{"bytes":300,"count":3}"#)
        #expect(server.requests.allSatisfy { $0.headers["X-Client"] == "port/1" })
    }
}
