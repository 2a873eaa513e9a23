import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// The destinations of files named by lists, servers and careless users.
@Suite(.serialized) struct PlaceTests {
    let bench: Workbench

    init() throws {
        bench = try Workbench()
        for name in ["1", "2", "a/x", "b/x", "x", "a"] { bench.server.route("/\(name)", .text("of \(name)")) }
    }

    private func get(list: String, _ options: String...) async throws -> ToolProcess.Result {
        try bench.scratch.write(list, to: "list")
        defer { try? FileManager.default.removeItem(at: bench.scratch.url.appendingPathComponent("list")) }
        return try await ToolProcess.run(["get", "-i", "list"] + options, in: bench.scratch.url)
    }

    @Test func `a tilde in a path is not expanded`() async throws {
        let result = try await get(list: "\(bench.url("/1"))\n out=~/evil\n")
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.text("~/evil") == "of 1")
        #expect(try await bench.get("-o", "~file", bench.url("/2")).status == 0)
        #expect(try await bench.get("-d", "~dir", bench.url("/2")).status == 0)
        #expect(try await bench.get("-J", "-d", "~", bench.url("/2")).status == 0)
        #expect(bench.scratch.names == ["~", "~dir", "~file"])
        #expect(try bench.scratch.text("~/2") == "of 2")
    }

    @Test func `different spellings of a directory are recognized as the same directory`() async throws {
        try bench.scratch.makeDirectory("d")
        try FileManager.default.createSymbolicLink(
            atPath: bench.scratch.url.appendingPathComponent("link").path, withDestinationPath: "d")
        let absolute = bench.scratch.url.appendingPathComponent("d").path
        for other in ["./d", "d/", "link", "new/../d", absolute] {
            let result = try await get(
                list: "\(bench.url("/1"))\n out=x\n dir=d\n\(bench.url("/2"))\n out=x\n dir=\(other)\n")
            #expect(result.status == 2 && result.errors.contains("two files in the list have the name x"), "\(other)")
        }
        let list = "\(bench.url("/x"))\n dir=d\n\(bench.url("/a/x"))\n dir=link\n\(bench.url("/b/x"))\n dir=\(absolute)\n"
        let result = try await get(list: list, "--no-clobber")
        #expect(result.status == 0, "\(result.errors)")
        let texts = try ["x", "x.1", "x.2"].map { try bench.scratch.text("d/\($0)") }
        #expect(texts == ["of x", "of a/x", "of b/x"])
        let again = try await get(list: list, "--no-clobber")
        #expect(again.status == 0 && again.output.contains("0 downloaded, 3 skipped"))
    }

    @Test func `a name derived from a URL avoids the files and directories of a list`() async throws {
        let list = "\(bench.url("/1"))\n out=a/x\n\(bench.url("/x"))\n dir=a\n\(bench.url("/a"))\n"
        let result = try await get(list: list)
        #expect(result.status == 0, "\(result.errors)")
        #expect(try bench.scratch.text("a/x") == "of 1")
        #expect(try bench.scratch.text("a/x.1") == "of x")
        #expect(try bench.scratch.text("a.1") == "of a")
        let below = try await get(list: "\(bench.url("/1"))\n out=x\n dir=b\n\(bench.url("/2"))\n out=x/y\n dir=./b\n")
        #expect(below.status == 2 && below.errors.contains("x/y is below x, which is another file in the list"))
    }

    @Test func `files with the same server-provided name are saved under different names`() async throws {
        let urls = ["/p", "/q", "/r"]
        for url in urls {
            bench.server.route(url, .text("of \(url)").header("Content-Disposition", "attachment; filename=same.txt"))
        }
        for option in ["-f", "-N"] {
            let result = try await ToolProcess.run(
                ["get", "-J", option] + urls.map(bench.url), in: bench.scratch.url)
            #expect(result.status == 0, "\(result.errors)")
            #expect(bench.scratch.names == ["same.1.txt", "same.2.txt", "same.txt"])
            #expect(Set(try bench.scratch.names.map(bench.scratch.text)) == ["of /p", "of /q", "of /r"])
            #expect(
                result.output.contains(" is saved as ./same.1.txt: same.txt belongs to another URL\n"),
                "\(result.output)")
        }
    }

    @Test func `a URL given twice is downloaded twice, even with server-provided names`() async throws {
        bench.server.route("/p", .text("p").header("Content-Disposition", "attachment; filename=same"))
        let result = try await bench.get("-J", bench.url("/p"), bench.url("/p"), bench.url("/p"))
        #expect(result.status == 0, "\(result.errors)")
        #expect(bench.scratch.names == ["same", "same.1", "same.2"])
    }

    @Test(arguments: [("/", "index.html"), ("/dir/", "index.html"), ("/dir/a.txt", "a.txt")])
    func `-J saves a response without a suggested name as without -J`(_ path: String, _ name: String) async throws {
        bench.server.route(path, .text("x"))
        #expect(try await bench.get("-J", bench.url(path)).status == 0)
        #expect(bench.scratch.names == [name])
        #expect(try await bench.get("-f", bench.url(path)).status == 0)
        #expect(bench.scratch.names == [name])
    }

    @Test(arguments: [[], ["-c"], ["--no-clobber"], ["-f"]])
    func `a file name that is too long is rejected before anything is sent`(_ options: [String]) async throws {
        let name = String(repeating: "n", count: 256)
        let result = try await ToolProcess.run(["get", "-o", name] + options + [bench.url("/1")], in: bench.scratch.url)
        #expect(result.status == 8 && result.errors.contains("File name too long"), "\(result.errors)")
        #expect(bench.server.requests.isEmpty)
        #expect(try await bench.get("-o", String(name.dropLast()), bench.url("/1")).status == 0)
    }

    @Test func `an unusable directory or list is reported with the system's error message`() async throws {
        try bench.scratch.write("", to: "file")
        let below = try await bench.get("-d", "file/x", bench.url("/1"))
        #expect(below.status == 8)
        #expect(below.errors == "convoy: cannot create the directory file/x: Not a directory\n")
        let list = try await bench.get("-i", "/")
        #expect(list.status == 2)
        #expect(list.errors == "convoy: cannot read --input-file /: Is a directory\n")
        #expect(bench.server.requests.isEmpty)
    }
}
