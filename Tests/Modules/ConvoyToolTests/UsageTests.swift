import Foundation
import Testing

@Suite(.serialized) struct UsageTests {
    @Test(arguments: [["--help"], ["-h"], ["help"], ["demo", "--help"], ["get", "-h"], ["run", "--help", "trust"]])
    func `help is printed on standard output with status 0`(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(arguments, in: scratch.url)
        #expect(result.status == 0)
        #expect(result.output.contains("Usage: convoy"))
        #expect(result.errors.isEmpty)
        #expect(result.outputLines.allSatisfy { $0.count < 80 })
    }

    @Test func `--version prints the versions of the program and its libraries`() async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(["--version"], in: scratch.url)
        #expect(result.status == 0)
        let lines = /convoy \d+\.\d+\.\d+\nlibcurl \d+\.\d+\.\d+, OpenSSL \d+\.\d+\.\d+, nghttp2 \d+\.\d+\.\d+\n/
        #expect(result.output.wholeMatch(of: lines) != nil)
    }

    @Test(arguments: [
        [], ["fly"], ["--fly"], ["demo", "x"], ["demo", "--json"], ["get"], ["get", "--jobs"],
        ["get", "--jobs", "0", "http://127.0.0.1:1/"], ["get", "--jobs", "x", "http://127.0.0.1:1/"],
        ["get", "-j1", "-j2", "http://127.0.0.1:1/"], ["get", "--json=yes", "http://127.0.0.1:1/"],
        ["get", "--timeout", "-1", "http://127.0.0.1:1/"], ["get", "--timeout", "nan", "http://127.0.0.1:1/"],
        ["get", "-o", "", "http://127.0.0.1:1/"], ["get", "--header", "no colon", "http://127.0.0.1:1/"],
        ["get", "ftp://127.0.0.1/x"], ["get", "file:///etc/hostname"], ["get", "http://"],
        ["get", "http:///x"], ["get", "http://127.0.0.1:99999/"], ["get", "http://127.0.0.1:1/\n"], ["run"],
        ["run", "a", "b"], ["run", "missing.json"], ["help", "fly"], ["help", "get", "fly"], ["get", "--help", "fly"],
        ["help", "get", "files", "speed"], ["help", "demo", "files"], ["help", "get", "manifest"], ["completion"],
        ["completion", "tcsh"], ["completion", "bash", "zsh"], ["manual", "get"],
    ])
    func `a usage error prints one line on standard error and exits with status 2`(_ arguments: [String]) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(arguments, in: scratch.url)
        #expect(result.status == 2)
        #expect(result.output.isEmpty)
        #expect(result.errorLines.count == 1)
        #expect(result.errors.hasPrefix("convoy: "))
        #expect(!result.errors.contains("Error Domain"))
        #expect(scratch.names.isEmpty)
    }

    @Test(arguments: [
        (["gte", "x"], "did you mean 'convoy get'?"), (["fly"], "try 'convoy --help'"),
        (["https://a.test/"], "'convoy get URL'"), (["a.test/x"], "'convoy get URL'"),
        (["localhost:8080"], "'convoy get URL'"), (["../w.yaml"], "'convoy run FILE'"),
        (["POST", "a.test"], "'convoy send POST URL'"), (["curl", "x"], "convoy import curl"),
        (["get", "--segmnets", "4", "x"], "did you mean '--segments'?"), (["get", "-nc", "x"], "--no-clobber"),
    ])
    func `a usage error suggests a similar name`(_ arguments: [String], _ advice: String) async throws {
        let result = try await ToolProcess.run(arguments, in: try Scratch().url)
        #expect(result.status == 2 && result.errors.contains(advice), "\(result.errors)")
    }

    @Test(arguments: ["--help", "get --help", "--version"])
    func `a failure to write the help is an error`(_ arguments: String) async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(command: "exec $convoy \(arguments) >/dev/full", in: scratch.url)
        #expect(result.status == 1)
        #expect(result.errors == "convoy: cannot write to standard output: No space left on device\n")
    }

    @Test func `a command that only prints ends when its output is no longer read`() async throws {
        let scratch = try Scratch()
        try scratch.write((0..<50_000).map { "http://127.0.0.1:1/\($0)\n" }.joined(), to: "list")
        let result = try await ToolProcess.run(
            command: "set -o pipefail; $convoy get --dry-run -i list | head -n 1; echo ${PIPESTATUS[0]}", in: scratch.url)
        #expect(result.outputLines == ["# http://127.0.0.1:1/0 for 0", "1"])
        #expect(result.errors == "convoy: cannot write to standard output: Broken pipe\n")
    }
}
