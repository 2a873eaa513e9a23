import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Runs the completion scripts in their shells.
@Suite(.serialized) struct CompletionTests {
    let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        for shell in Completion.Shell.allCases { try scratch.write(Completion.script(for: shell), to: "script.\(shell)") }
    }

    private func run(_ program: String, _ arguments: String...) throws -> ProcessRunner.Result {
        try ProcessRunner.run(
            program, arguments, environment: ["HOME": scratch.url.path, "XDG_CONFIG_HOME": scratch.url.path],
            directory: scratch.url)
    }

    /// Words to complete, and the expected completions.
    private static let offers: [(words: [String], offered: Set<String>)] = [
        (["g"], ["get"]), (["get", "--check"], ["--checksum", "--checksum-file"]),
        (["get", "--progress", "p"], ["plain"]), (["run", "--tls-min", ""], ["1.2", "1.3"]),
        (["completion", ""], ["bash", "zsh", "fish"]), (["help", "ma"], ["manual"]), (["get", "--jobs", ""], []),
        (["help", "run", "m"], ["manifest"]), (["get", "--help", "f"], ["files"]), (["run", "--checksum"], []),
        (["get", ""], []), (["demo", "--j"], []), (["queue", "re"], ["retry", "resume", "reschedule"]),
        (["queue", "list", "--state", "f"], ["failed"]), (["work", "--help", "se"], ["service"]),
        (["s3", "re"], ["remove"]), (["s3", "put", "--addressing", "v"], ["virtual"]),
    ]

    @Test func `the completion command prints the script for each shell`() async throws {
        for shell in Completion.Shell.allCases {
            let result = try await ToolProcess.run(["completion", shell.rawValue], in: scratch.url)
            #expect(result.status == 0 && result.errors.isEmpty)
            #expect(result.output == Completion.script(for: shell) + "\n")
        }
    }

    // MARK: bash

    /// Returns the completions of bash's function, and its options for `compopt`, for words of which the last is completed.
    private func bash(_ words: [String]) throws -> [String] {
        let list = (["convoy"] + words).map { "'\($0)'" }.joined(separator: " ")
        let command = """
            compopt() { echo "compopt $*"; }
            source script.bash
            COMP_WORDS=(\(list)); COMP_CWORD=\(words.count); _convoy; printf '%s\\n' "${COMPREPLY[@]}"
            """
        let result = try run("bash", "--norc", "-c", command)
        #expect(result.status == 0 && result.errorText == "")
        return result.text.split(separator: "\n").map(String.init)
    }

    @Test(.needs("bash")) func `bash accepts the script`() throws {
        let result = try run("bash", "-n", "script.bash")
        #expect(result.status == 0 && result.errorText == "")
    }

    @Test(.needs("bash"), arguments: offers)
    func `bash offers the completions in the option table`(_ words: [String], _ offered: Set<String>) throws {
        #expect(Set(try bash(words)) == offered)
    }

    @Test(.needs("bash"), arguments: Command.allCases)
    func `bash offers exactly the options of a command`(_ command: Command) throws {
        let options = OptionTable.options(of: command)
        let names = options.map { "--\($0.name)" } + options.compactMap { $0.letter.map { "-\($0)" } }
        #expect(try bash([command.rawValue, "-"]).sorted() == names.sorted())
        #expect(try bash([command.rawValue, "--", "-"]).allSatisfy { !$0.hasPrefix("-") })
    }

    @Test(.needs("bash")) func `bash offers files and directories for options that take them`() throws {
        #expect(try bash(["get", "--input-file", ""]) == ["compopt -o default"])
        #expect(try bash(["get", "-d", ""]) == ["compopt -o dirnames"])
        #expect(try bash(["run", ""]) == ["compopt -o default"])
        // bash splits --progress=b and --cacert=x at the equals sign.
        #expect(try bash(["get", "--progress", "=", "b"]) == ["bar"])
        #expect(try bash(["get", "--cacert", "="]) == ["compopt -o default"])
    }

    // MARK: fish

    private func fish(_ words: [String]) throws -> [String] {
        let line = (["convoy"] + words).joined(separator: " ")
        let result = try run("fish", "--no-config", "-c", "source script.fish; complete -C '\(line)'")
        #expect(result.status == 0 && result.errorText == "")
        return result.text.split(separator: "\n").map { String($0.prefix { $0 != "\t" }) }
    }

    @Test(.needs("fish")) func `fish accepts the script`() throws {
        let result = try run("fish", "--no-config", "--no-execute", "script.fish")
        #expect(result.status == 0 && result.errorText == "")
    }

    @Test(.needs("fish"), arguments: offers)
    func `fish offers the completions in the option table`(_ words: [String], _ offered: Set<String>) throws {
        #expect(Set(try fish(words)) == offered)
    }

    @Test(.needs("fish"), arguments: Command.allCases)
    func `fish offers exactly the options of a command`(_ command: Command) throws {
        let options = OptionTable.options(of: command)
        let names = options.map { "--\($0.name)" } + options.compactMap { $0.letter.map { "-\($0)" } }
        #expect(try fish([command.rawValue, "-"]).sorted() == names.sorted())
    }

    @Test(.needs("fish")) func `fish offers files and directories for options that take them`() throws {
        try scratch.makeDirectory("things")
        try scratch.write("", to: "thing list")
        #expect(try fish(["get", "-i", "th"]).sorted() == ["thing list", "things/"])
        #expect(try fish(["get", "-d", "th"]) == ["things/"])
        #expect(try fish(["run", "th"]).sorted() == ["thing list", "things/"])
    }

    // MARK: At a terminal

    /// Types a line into a shell, and returns the words with which it would run the program.
    private func typed(_ line: String, in shell: String, setUp: String) async throws -> [String] {
        let terminal = try PseudoTerminal()
        let process = try ToolProcess(
            command: terminal.command("exec \(shell) >\(terminal.path) 2>&1"), in: scratch.url,
            environment: ["HOME": scratch.url.path, "INPUTRC": "/dev/null", "HISTFILE": ""])
        try terminal.type("\(setUp); convoy() { printf \"%s\\n\" \"$@\" >words; : >done; }; PS1=rea'dy> '\n")
        try await terminal.waitFor("ready> ")
        try terminal.type("convoy \(line)\t\n")
        try await scratch.waitForFile("done")
        try terminal.type("exit\n")
        _ = try await process.finished()
        return try scratch.text("words").split(separator: "\n").map(String.init)
    }

    private static let lines: [(line: String, words: [String])] = [
        ("get --no-cl", ["get", "--no-clobber"]), ("get --progress=pl", ["get", "--progress=plain"]),
        ("get -i thin", ["get", "-i", "thing list"]), ("get -d ot", ["get", "-d", "other/"]),
        ("help run man", ["help", "run", "manifest"]), ("get --help fil", ["get", "--help", "files"]),
    ]

    @Test(.needs("bash"), arguments: lines)
    func `bash completes a typed line`(_ line: String, _ words: [String]) async throws {
        try scratch.write("", to: "thing list")
        try scratch.makeDirectory("other")
        #expect(try await typed(line, in: "bash --norc -i", setUp: "source script.bash") == words)
    }

    @Test(.needs("zsh")) func `zsh accepts the script`() throws {
        let result = try run("zsh", "-n", "script.zsh")
        #expect(result.status == 0 && result.errorText == "")
    }

    @Test(.needs("zsh"), arguments: lines + [("completion fi", ["completion", "fish"]), ("g", ["get"])])
    func `zsh completes a typed line`(_ line: String, _ words: [String]) async throws {
        try scratch.write("", to: "thing list")
        try scratch.makeDirectory("other")
        let setUp = "autoload -Uz compinit; compinit -D -u; bindkey \"^I\" complete-word; source script.zsh"
        // zsh removes the slash after a directory when the line ends there.
        let expected = words.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
        #expect(try await typed(line, in: "zsh -f -i", setUp: setUp) == expected)
    }

    @Test(.needs("zsh")) func `zsh finds the script in its function path`() async throws {
        try scratch.makeDirectory("functions")
        try scratch.write(Completion.script(for: .zsh), to: "functions/_convoy")
        let setUp = "fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -D -u; bindkey \"^I\" complete-word"
        #expect(try await typed("get --no-cl", in: "zsh -f -i", setUp: setUp) == ["get", "--no-clobber"])
    }
}
