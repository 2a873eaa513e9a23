import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Unusual files at the destination of a download, and responses that are not a file.
@Suite(.serialized) struct OddFileTests {
    let bench: Workbench

    init() throws {
        bench = try Workbench()
        bench.server.route("/x", .text("new"))
    }

    private func path(_ name: String) -> String { bench.scratch.url.appendingPathComponent(name).path }

    @Test func `a partial file that is a link is not followed, and the message names it`() async throws {
        try bench.scratch.write("other", to: "target")
        try FileManager.default.createSymbolicLink(atPath: path("x.convoypart"), withDestinationPath: "target")
        let result = try await bench.get(bench.url("/x"))
        #expect(result.status == 8)
        #expect(result.errors.hasSuffix("x.convoypart could not be written: Too many levels of symbolic links\n"))
        #expect(try bench.scratch.text("target") == "other")
    }

    @Test(arguments: ["x.convoypart", "x.convoyjournal"])
    func `a directory with the name of a partial file is kept, and the message names it`(_ name: String) async throws {
        try bench.scratch.makeDirectory("\(name)/inside")
        let result = try await bench.get(bench.url("/x"))
        #expect(result.status == 8)
        #expect(result.errors.hasSuffix("\(name) could not be written: Is a directory\n"), "\(result.errors)")
        #expect(bench.scratch.names == [name])
    }

    @Test(arguments: [#"-o $'n\xffme' URL"#, #"$'URL?\xff'"#])
    func `an argument that is not UTF-8 is an error`(_ arguments: String) async throws {
        let command = "exec $convoy get \(arguments.replacing("URL", with: bench.url("/x")))"
        let result = try await ToolProcess(command: command, in: bench.scratch.url).finished()
        #expect(result.status == 2)
        #expect(result.errors.contains("invalid UTF-8"), "\(result.errors)")
        #expect(bench.scratch.names.isEmpty && bench.server.requests.isEmpty)
    }

    @Test func `a pipe with the name of a partial file does not block the run`() async throws {
        try #require(mkfifo(path("x.convoypart"), 0o600) == 0)
        #expect(try await bench.get(bench.url("/x")).status == 8)
        try #require(mkfifo(path("y.convoyjournal"), 0o600) == 0)
        #expect(try await bench.get("-o", "y", bench.url("/x")).status == 0)
        #expect(bench.scratch.names == ["x.convoypart", "y"])
    }

    @Test func `a dry run does not change any files`() async throws {
        try bench.scratch.write("mine", to: "x.convoypart")
        try bench.scratch.write(String(repeating: "no journal", count: 1000), to: "x.convoyjournal")
        let result = try await bench.get("--dry-run", "-d", ".", bench.url("/x"))
        #expect(result.status == 0 && result.output.contains("GET /x HTTP/1.1"))
        #expect(try await bench.get("--dry-run", "-d", "new/dir", "--cookie-jar", "jar", bench.url("/x")).status == 0)
        #expect(bench.scratch.names == ["x.convoyjournal", "x.convoypart"])
        #expect(try bench.scratch.text("x.convoypart") == "mine")
        #expect(try bench.scratch.text("x.convoyjournal").hasPrefix("no journalno"))
        #expect(bench.server.requests.isEmpty)
    }

    @Test func `removing the directory during a download is reported as a disk failure`() async throws {
        let gate = TestServer.Gate()
        bench.server.serve(PatternBytes.data(count: 100_000), at: "/held", etag: "\"1\"") { _, response in
            response.heldBody(by: gate, afterBytes: 60_000)
        }
        let tool = try ToolProcess(["get", "--retry", "0", "-d", "d", bench.url("/held")], in: bench.scratch.url)
        try await bench.waitForBytes(of: "d/held", count: 60_000)
        try FileManager.default.removeItem(atPath: path("d"))
        gate.open()
        let result = try await tool.finished()
        #expect(result.status == 8)
        #expect(result.errors.hasSuffix("held could not be written: No such file or directory\n"), "\(result.errors)")
        #expect(bench.scratch.names.isEmpty)
    }

    @Test func `an unrequested content encoding is decoded, except for archives`() async throws {
        let gzip: [UInt8] = [
            0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xFF, 0xCB, 0x48, 0xCD, 0xC9, 0xC9, 0xE7, 0x02, 0x00, 0x20,
            0x30, 0x3A, 0x36, 0x06, 0x00, 0x00, 0x00,
        ]
        for name in ["/page", "/archive.tar.gz"] {
            bench.server.route(name, .bytes(Data(gzip)).header("Content-Encoding", "gzip"))
        }
        bench.server.route("/bad", .text("no gzip").header("Content-Encoding", "gzip"))
        #expect(try await bench.get(bench.url("/page"), bench.url("/archive.tar.gz")).status == 0)
        #expect(try bench.scratch.text("page") == "hello\n")
        #expect(try bench.scratch.data("archive.tar.gz") == Data(gzip))
        #expect(try await bench.get("-o", "-", bench.url("/page")).output == "hello\n")
        #expect(try await bench.get("-o", "raw", "-H", "Accept-Encoding: gzip", bench.url("/page")).status == 0)
        #expect(try bench.scratch.data("raw") == Data(gzip))
        #expect(bench.server.requests("/page").map { $0.headers["Accept-Encoding"] } == ["identity", "identity", "gzip"])
        #expect(try await bench.get("--retry", "0", bench.url("/bad")).status == 4)
        #expect(bench.scratch.names == ["archive.tar.gz", "page", "raw"])
    }

    @Test func `a file must match both --checksum and --checksum-file`() async throws {
        let right = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437"
        try bench.scratch.write("\(String(repeating: "0", count: 64))  x\n", to: "sums")
        let result = try await bench.get("--checksum", right, "--checksum-file", "sums", bench.url("/x"))
        #expect(result.status == 9)
        try bench.scratch.write("\(right.uppercased()) *./x\r\n", to: "sums")
        let wrong = String(repeating: "0", count: 64)
        #expect(try await bench.get("--checksum", wrong, "--checksum-file", "sums", bench.url("/x")).status == 9)
        #expect(try await bench.get("--checksum", right, "--checksum-file", "sums", bench.url("/x")).status == 0)
    }
}
