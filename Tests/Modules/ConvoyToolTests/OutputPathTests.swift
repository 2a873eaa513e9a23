import ConvoyTestServer
import Foundation
import Testing

/// Tests that the destinations of `convoy run` are below the output directory, do not replace other files, and are
/// checked before anything is sent.
@Suite(.serialized) struct OutputPathTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        scratch = try Scratch()
        server.route("/*", .text("new"))
    }

    private func run(_ output: String, _ arguments: String...) async throws -> ToolProcess.Result {
        try scratch.write(
            #"{"baseURL": "\#(server.url.absoluteString)", "requests": [{"id": "a", "url": "x", "output": "\#(output)"}]}"#,
            to: "m.json")
        return try await ToolProcess.run(["run"] + arguments + ["m.json"], in: scratch.url)
    }

    @Test(arguments: ["o", "d/o", "é", "a b"])
    func `missing directories of an output are created`(_ output: String) async throws {
        let result = try await run(output)
        #expect(result.status == 0, "\(result.errors)")
        #expect(try scratch.text(output) == "new")
    }

    @Test(arguments: ["there", "there.part"])
    func `a destination that is not a regular file is kept, and nothing is sent`(_ name: String) async throws {
        try scratch.makeDirectory(name)
        let result = try await run("there", "--force")
        #expect(result.status == 8)
        #expect(result.errors == "convoy: \(name) is not a file\n")
        #expect(server.requests.isEmpty)
    }

    @Test func `a pipe is not replaced, and nothing is sent`() async throws {
        try #require(mkfifo(scratch.url.appendingPathComponent("pipe").path, 0o600) == 0)
        let result = try await run("pipe", "--force")
        #expect(result.status == 8)
        #expect(server.requests.isEmpty)
        #expect(scratch.names == ["m.json", "pipe"])
    }

    @Test func `an existing partial file ends the run before anything is sent`() async throws {
        try scratch.write("old", to: "there.part")
        let result = try await run("there")
        #expect(result.status == 8)
        #expect(server.requests.isEmpty)
        #expect(try scratch.text("there.part") == "old")
        #expect(try await run("there", "--force").status == 0)
        #expect(try scratch.text("there") == "new")
    }

    @Test func `a file with the name of a directory ends the run before anything is sent`() async throws {
        try scratch.write("a file", to: "sub")
        let result = try await run("sub/deep/there", "--force")
        #expect(result.status == 8)
        #expect(result.errors == "convoy: not a directory: sub\n")
        #expect(server.requests.isEmpty)
    }

    @Test(arguments: ["out/link/there", "out/deep/link/there", "out/dangling/there"])
    func `symbolic links inside the output directory are not followed`(_ output: String) async throws {
        for name in ["out/deep", "elsewhere"] { try scratch.makeDirectory(name) }
        for (link, target) in [
            ("out/link", "../elsewhere"), ("out/deep/link", "../../elsewhere"), ("out/dangling", "../new"),
        ] {
            try FileManager.default.createSymbolicLink(
                atPath: scratch.url.appendingPathComponent(link).path, withDestinationPath: target)
        }
        let result = try await run(String(output.dropFirst(4)), "-d", "out", "--force")
        #expect(result.status == 8)
        #expect(result.errors.contains("is a symbolic link"), "\(result.errors)")
        #expect(server.requests.isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: scratch.url.path + "/elsewhere").isEmpty)
        #expect(!scratch.names.contains("new"))
    }

    @Test func `the output directory itself can be a symbolic link`() async throws {
        try scratch.makeDirectory("elsewhere")
        try FileManager.default.createSymbolicLink(
            atPath: scratch.url.appendingPathComponent("out").path, withDestinationPath: "elsewhere")
        #expect(try await run("there", "-d", "out").status == 0)
        #expect(try scratch.text("elsewhere/there") == "new")
    }
}
