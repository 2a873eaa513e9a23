import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Every option that names an output file, with every kind of path.
@Suite(.serialized) struct OutputFileTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        (server, scratch) = (try TestServer(), try Scratch())
        server.route("/x", .text("body"))
        try scratch.write("requests: {a: {get: \"\(server.url("/x").absoluteString)\"}}\n", to: "m.yaml")
    }

    /// The arguments of a command, with `PATH` for the file, and a string that the file must contain.
    struct Output: Sendable, CustomTestStringConvertible {
        let arguments: [String]
        let text: String
        var testDescription: String { arguments.joined(separator: " ") }
    }

    static let outputs = [
        Output(arguments: ["run", "--report", "junit=PATH", "m.yaml"], text: "<testsuites"),
        Output(arguments: ["run", "--timeline", "PATH", "m.yaml"], text: "<!DOCTYPE html>"),
        Output(arguments: ["run", "--har", "PATH", "m.yaml"], text: "\"entries\""),
        Output(arguments: ["get", "-f", "-o", "body", "--har", "PATH", "URL"], text: "\"entries\""),
        Output(arguments: ["send", "--har", "PATH", "GET", "URL"], text: "\"entries\""),
    ]

    private func run(_ output: Output, _ path: String) async throws -> ToolProcess.Result {
        let url = server.url("/x").absoluteString
        return try await ToolProcess.run(
            output.arguments.map { $0.replacing("PATH", with: path).replacing("URL", with: url) }, in: scratch.url)
    }

    private func kind(_ name: String) -> mode_t {
        var facts = stat()
        return lstat(scratch.url.appendingPathComponent(name).path, &facts) == 0 ? facts.st_mode & S_IFMT : 0
    }

    @Test(arguments: outputs)
    func `a symbolic link is kept, and its target is replaced with the same permissions`(output: Output) async throws {
        try scratch.write("old", to: "file")
        chmod(scratch.url.appendingPathComponent("file").path, 0o640)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.url.appendingPathComponent("link").path, withDestinationPath: "file")
        let result = try await run(output, "link")
        #expect(result.status == 0, "\(result.errors)")
        #expect(kind("link") == S_IFLNK)
        #expect(try scratch.text("file").contains(output.text))
        var facts = stat()
        #expect(stat(scratch.url.appendingPathComponent("file").path, &facts) == 0 && facts.st_mode & 0o777 == 0o640)
        let names = try FileManager.default.contentsOfDirectory(atPath: scratch.url.path)
        #expect(names.allSatisfy { !$0.hasSuffix(".convoy") })
    }

    @Test(arguments: outputs) func `a pipe is kept, and its reader receives the output`(output: Output) async throws {
        let pipe = scratch.url.appendingPathComponent("pipe").path
        #expect(mkfifo(pipe, 0o600) == 0)
        let reader = Task.detached { () -> String in
            await withCheckedContinuation { done in
                Thread.detachNewThread {
                    // Foundation's `Data(contentsOf:)` does not read pipes.
                    let descriptor = open(pipe, O_RDONLY)
                    let data = Data((try? FileContents.read(descriptor, limit: 1 << 24)) ?? [])
                    close(descriptor)
                    done.resume(returning: String(decoding: data, as: UTF8.self))
                }
            }
        }
        let result = try await run(output, "pipe")
        #expect(result.status == 0, "\(result.errors)")
        #expect(kind("pipe") == S_IFIFO)
        guard kind("pipe") == S_IFIFO else { return }
        // Close the pipe for a reader that is still waiting.
        close(open(pipe, O_WRONLY | O_NONBLOCK))
        #expect(await reader.value.contains(output.text))
    }

    @Test(arguments: outputs) func `writing to a full device fails`(output: Output) async throws {
        // The test creates a device node, so that an error cannot replace the device of the machine.
        let device = scratch.url.appendingPathComponent("full").path
        guard mknod(device, S_IFCHR | 0o666, 0x107) == 0 else { return }
        let descriptor = open(device, O_WRONLY)
        guard descriptor >= 0 else { return }
        close(descriptor)
        let result = try await run(output, "full")
        #expect(result.status == 8 && result.errors.contains("No space left on device"), "\(result.status) \(result.errors)")
        #expect(kind("full") == S_IFCHR)
    }

    @Test(arguments: outputs, ["folder", "none/file", "", "read-only/file"])
    func `an output that is not writable is reported before anything is sent`(output: Output, path: String) async throws {
        try scratch.makeDirectory("folder")
        try scratch.makeDirectory("read-only")
        chmod(scratch.url.appendingPathComponent("read-only").path, 0o500)
        if path.hasPrefix("read-only"), getuid() == 0 { return }
        let result = try await run(output, path)
        #expect(result.status == (path.isEmpty ? 2 : 8), "\(result.errors)")
        #expect(server.requests.isEmpty && kind("folder") == S_IFDIR)
    }

    @Test(arguments: outputs.filter { $0.arguments[0] != "send" }, ["-", "/dev/stdout"])
    func `only one option can write to standard output`(output: Output, path: String) async throws {
        let result = try await run(output, path)
        #expect(result.status == 0, "\(result.errors)")
        #expect(result.output.contains(output.text) && !result.output.contains("a: 200"), "\(result.output.prefix(300))")
        #expect(kind("-") == 0)
        let twice = try await ToolProcess.run(
            ["run", "--json", "--timeline", path, "m.yaml"], in: scratch.url)
        #expect(twice.status == 2 && twice.errors.contains("both write to standard output"), "\(twice.errors)")
    }

    @Test func `a stream receives one report for all rows`() async throws {
        try scratch.write("n\n1\n2\n", to: "rows.csv")
        let result = try await ToolProcess.run(
            ["run", "--data", "rows.csv", "--report", "junit=-", "m.yaml"], in: scratch.url)
        #expect(result.output.split(separator: "<testsuites ").count == 2, "\(result.errors)")
        #expect(result.output.split(separator: "<testsuite ").count == 3, "\(result.output)")
    }

    @Test func `--save keeps a symbolic link and the permissions of its target`() async throws {
        let url = server.url("/x").absoluteString
        let first = try await ToolProcess.run(["send", "--save", "saved", "GET", url], in: scratch.url)
        #expect(first.status == 0, "\(first.errors)")
        chmod(scratch.url.appendingPathComponent("saved").path, 0o600)
        try FileManager.default.createSymbolicLink(
            atPath: scratch.url.appendingPathComponent("link").path, withDestinationPath: "saved")
        let second = try await ToolProcess.run(["send", "--save", "link", "GET", url], in: scratch.url)
        #expect(second.status == 0 && kind("link") == S_IFLNK, "\(second.errors)")
        var facts = stat()
        #expect(stat(scratch.url.appendingPathComponent("saved").path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        #expect(try scratch.text("saved").contains("get-x-2"))
    }
}
