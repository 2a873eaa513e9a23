import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

@Suite(.serialized) struct ConfigurationTests {
    let server: TestServer
    let scratch: Scratch

    init() throws {
        server = try TestServer()
        server.route("/file", .text("hello"))
        scratch = try Scratch()
        try scratch.makeDirectory("home/.config/convoy")
        try scratch.makeDirectory("here")
    }

    private var home: String { scratch.url.appendingPathComponent("home").path }
    private var path: String { "\(home)/.config/convoy/config.json" }

    private func configure(_ text: String, mode: mode_t = 0o600, at path: String? = nil) throws {
        let path = path ?? self.path
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        try #require(chmod(path, mode) == 0)
    }

    /// Downloads the file with a separate home directory.
    private func get(_ arguments: String..., configurationHome: String = "") async throws -> ToolProcess.Result {
        try await ToolProcess.run(
            ["get"] + arguments + [server.url("/file").absoluteString], in: scratch.url.appendingPathComponent("here"),
            environment: ["HOME": home, "XDG_CONFIG_HOME": configurationHome])
    }

    private func exists(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: scratch.url.appendingPathComponent(name).path)
    }

    private func expectRefusal(_ text: String) async throws {
        let result = try await get()
        #expect(result.status == 2 && result.output.isEmpty)
        #expect(result.errorLines.count == 1 && result.errors.contains(text), "\(result.errors)")
        #expect(server.requests.isEmpty)
    }

    // MARK: Location

    @Test func `options are read from the configuration in the home directory`() async throws {
        try configure(#"{"directory": "~/down", "quiet": true}"#)
        let result = try await get()
        #expect(result.status == 0 && result.output.isEmpty)
        #expect(exists("home/down/file"))
    }

    @Test func `only an absolute XDG_CONFIG_HOME overrides the home directory`() async throws {
        try configure(#"{"directory": "../home"}"#)
        try scratch.makeDirectory("other/convoy")
        try configure(#"{"directory": "../other"}"#, at: scratch.url.appendingPathComponent("other/convoy/config.json").path)
        #expect(try await get(configurationHome: scratch.url.appendingPathComponent("other").path).status == 0)
        #expect(exists("other/file") && !exists("home/file"))
        #expect(try await get(configurationHome: "../other").status == 0)
        #expect(exists("home/file"))
    }

    @Test func `without a home directory, no configuration is read`() {
        #expect(Configuration.path(in: [:]) == nil)
        #expect(Configuration.path(in: ["HOME": "", "XDG_CONFIG_HOME": "relative"]) == nil)
        #expect(Configuration.path(in: ["HOME": "/a"]) == "/a/.config/convoy/config.json")
        #expect(Configuration.path(in: ["HOME": "/a", "XDG_CONFIG_HOME": "/b"]) == "/b/convoy/config.json")
    }

    @Test func `a missing configuration and an empty object are accepted`() async throws {
        #expect(try await get().status == 0)
        try configure("{}")
        #expect(try await get("-f").status == 0)
        #expect(try await get("-f", configurationHome: "/dev/null").status == 0)
    }

    @Test func `--no-config ignores the configuration`() async throws {
        try configure("no JSON", mode: 0o666)
        #expect(try await get("--no-config").status == 0)
        #expect(exists("here/file"))
    }

    @Test func `help, completions and the manual ignore an invalid configuration`() async throws {
        try configure("no JSON")
        for arguments in [["--help"], ["get", "--help"], ["completion", "bash"], ["manual"]] {
            let result = try await ToolProcess.run(
                arguments, in: scratch.url, environment: ["HOME": home, "XDG_CONFIG_HOME": ""])
            #expect(result.status == 0)
        }
    }

    // MARK: Permissions

    @Test(arguments: [0o620, 0o602, 0o666] as [mode_t]) func `a configuration that other users can write to is rejected`(
        _ mode: mode_t
    ) async throws {
        try configure("{}", mode: mode)
        try await expectRefusal("other users can write to the configuration \(path)")
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a file away"))
    func `a configuration owned by another user is rejected`() async throws {
        try configure("{}")
        try #require(chown(path, 65534, 65534) == 0)
        try await expectRefusal("the configuration \(path) belongs to another user")
    }

    @Test func `a configuration that is not a readable file is rejected`() async throws {
        try #require(mkfifo(path, 0o600) == 0)
        try await expectRefusal("\(path) is not a file")
        try #require(unlink(path) == 0 && symlink(path, path) == 0)
        try await expectRefusal("cannot read the configuration \(path): ")
        try #require(unlink(path) == 0 && mkdir(path, 0o700) == 0)
        try await expectRefusal("\(path) is not a file")
    }

    @Test func `a configuration larger than 1 MiB is rejected`() async throws {
        let spaces = String(repeating: " ", count: Configuration.maximumLength - 2)
        try configure("{}" + spaces)
        #expect(try await get().status == 0)
        try configure("{}" + spaces + " ")
        let result = try await get("-f")
        #expect(result.status == 2 && result.errors.contains("is larger than 1048576 bytes"))
    }

    // MARK: Contents

    @Test func `an invalid configuration is reported with its position, and nothing is sent`() async throws {
        try configure("{\"jobs\": 2,\n \"jubs\": 3}")
        try await expectRefusal("convoy: \(path):2:2: unknown option \"jubs\"")
        try configure("{\"jobs\": 2,")
        try await expectRefusal("\(path):1:12: ")
    }

    @Test(arguments: [
        ("", 1, 1, "the text ends"), ("[]", 1, 1, "must be an object"),
        (
            #"{"output": "x"}"#, 1, 2,
            "applies to a single run"
        ),
        (#"{"version": true}"#, 1, 2, "unknown option"), (#"{"--jobs": 1}"#, 1, 2, "without the leading hyphens"),
        (#"{"force": "yes"}"#, 1, 11, "true or false"), (#"{"force": 1}"#, 1, 11, "true or false"),
        (#"{"jobs": true}"#, 1, 10, "a string or a number"), (#"{"jobs": [1]}"#, 1, 10, "a string or a number"),
        (#"{"header": ["a: b", 1]}"#, 1, 21, "array of strings"), (#"{"header": {}}"#, 1, 12, "array of strings"),
        (#"{"color": "red"}"#, 1, 11, "auto, always or never"), (#"{"tls-min": 1.1}"#, 1, 13, "1.2 or 1.3"),
        (#"{"proxy": "a\u0000b"}"#, 1, 11, "NUL"), (#"{"jobs": 1, "jobs": 2}"#, 1, 13, "duplicate"),
    ])
    func `a configuration error includes line, column and reason`(
        _ text: String, _ line: Int, _ column: Int, _ reason: String
    ) {
        #expect {
            _ = try Configuration.values(in: Data(text.utf8), home: nil)
        } throws: { error in
            guard let problem = error as? JSONProblem else { return false }
            return problem.position.line == line && problem.position.column == column && problem.text.contains(reason)
        }
    }

    @Test(
        arguments: [
            (#"{"quiet": false, "force": null, "header": []}"#, [:]), (#"{"jobs": 3}"#, ["jobs": ["3"]]),
            (#"{"jobs": "3"}"#, ["jobs": ["3"]]), (#"{"retry-max-time": 1.5}"#, ["retry-max-time": ["1.5"]]),
            (#"{"tls-min": 1.3}"#, ["tls-min": ["1.3"]]), (#"{"header": "a: b"}"#, ["header": ["a: b"]]),
            (#"{"header": ["a: b", "c: d"]}"#, ["header": ["a: b", "c: d"]]),
            (#"{"no-clobber": true, "force": true}"#, ["force": []]),
            (#"{"force": true, "no-clobber": false}"#, ["force": []]),
            (#"{"cacert": "~/ca.pem", "proxy": "~/x"}"#, ["cacert": ["/h/ca.pem"], "proxy": ["~/x"]]),
        ] as [(String, [String: [String]])])
    func `configured values have the same meaning as on the command line`(
        _ text: String, _ values: [String: [String]]
    ) throws {
        #expect(try Configuration.values(in: Data(text.utf8), home: "/h") == values)
    }

    @Test func `the command line overrides the configuration`() async throws {
        try configure(#"{"directory": "configured", "no-clobber": true, "user-agent": "configured", "header": "X: 1"}"#)
        #expect(try await get("-d", ".", "-A", "given", "-H", "X: 2").status == 0)
        #expect(exists("here/file") && !exists("here/configured"))
        let request = try #require(server.requests.first)
        #expect(request.headers["User-Agent"] == "given")
        #expect(request.headers["X"] == "1, 2")
        // The configured --no-clobber would skip the file.
        server.route("/file", .text("changed"))
        #expect(try await get("-d", ".").status == 0)
        #expect(try scratch.text("here/file") == "hello")
        #expect(try await get("-d", ".", "--force").status == 0)
        #expect(try scratch.text("here/file") == "changed")
    }

    @Test func `an error message states whether the option comes from the configuration`() async throws {
        try configure(#"{"jobs": 0, "jobs-per-host": 3}"#)
        let result = try await get()
        #expect(result.status == 2)
        #expect(result.errors.contains("from 1 to 256; --jobs is in the configuration; try"))
        #expect(!result.errors.contains("--jobs-per-host"))
        #expect(try await get("--jobs", "0").errors.contains("from 1 to 256; try"))
    }

    @Test func `--output overrides a configured remote-header-name`() async throws {
        try configure(#"{"remote-header-name": true}"#)
        #expect(try await get("-o", "x").status == 0)
        #expect(exists("here/x"))
    }

    @Test func `a configured option is ignored by commands that do not support it`() throws {
        var options = try Options(["manifest.json"], command: .run)
        options.merge(try Configuration.values(in: Data(#"{"no-clobber": true, "jobs": 2}"#.utf8), home: nil))
        #expect(!options.has("no-clobber") && options.value("jobs") == "2")
    }
}
