import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

@Suite struct ManualTests {
    private func run(_ program: String, _ arguments: String...) throws -> ProcessRunner.Result {
        try ProcessRunner.run(
            program, arguments, input: Data(Manual.text.utf8), environment: ["MANWIDTH": "80", "LC_ALL": "C.UTF-8"])
    }

    @Test func `the manual command prints the manual page`() async throws {
        let scratch = try Scratch()
        let result = try await ToolProcess.run(["manual"], in: scratch.url)
        #expect(result.status == 0 && result.errors.isEmpty)
        #expect(result.output == Manual.text + "\n")
    }

    @Test(.needs("mandoc")) func `mandoc reports no warnings`() throws {
        let result = try run("mandoc", "-T", "lint", "-W", "warning")
        #expect(result.text == "" && result.errorText == "")
        #expect(result.status == 0)
    }

    @Test(.needs("groff")) func `groff reports no warnings`() throws {
        let result = try run("groff", "-man", "-ww", "-Tutf8")
        #expect(result.status == 0 && result.errorText == "")
    }

    @Test(.needs("groff")) func `the formatted page can be copied: options are unbroken and use ASCII hyphens`() throws {
        let result = try run("groff", "-man", "-Tutf8", "-P-cbou")
        for option in OptionTable.all { #expect(result.text.contains("--\(option.name)"), "\(option.name)") }
        #expect(result.text.contains("~/.config/convoy/config.json"))
        #expect(result.text.contains("convoy get --json -i list.txt | jq 'select(.error) | {url, error, errorCode}'"))
        #expect(result.text.contains("(.p12, .pfx)"))
        #expect(!result.text.contains("\u{2010}"))
    }

    @Test(arguments: [
        (#"a\b"#, #"a\eb"#), ("--x", #"\-\-x"#), ("it's", #"it\(aqs"#), ("~^`", #"\(ti\(ha\(ga"#), ("é", #"\[u00E9]"#),
        ("😀", #"\[u1F600]"#),
    ])
    func `special characters are escaped for roff`(_ text: String, _ escaped: String) {
        #expect(Roff.escaped(text) == escaped)
    }

    @Test func `a line that begins with a dot or a quote is not interpreted as a roff request`() {
        var page = Roff()
        page.example([".TH evil", "'br", "..."])
        #expect(
            page.text.components(separatedBy: "\n").filter { $0.contains("evil") || $0.contains("br") } == [
                #"\&.TH evil"#, #"\(aqbr"#,
            ])
        #expect(page.text.contains("\n\\&...\n"))
    }

    @Test func `the manual lists every command, exit status, variable and file`() {
        let text = Manual.text
        for command in Command.allCases { #expect(text.contains("\\fBconvoy \(command.rawValue)\\fR")) }
        for status in 0...9 { #expect(text.contains("\n\\fB\(status)\\fR\n")) }
        for name in [
            "https_proxy", "no_proxy", "NO_COLOR", "NETRC", "XDG_CONFIG_HOME", "TERM", "LC_ALL", "NAME.convoypart",
            "NAME.convoyjournal",
        ] { #expect(text.contains(name), "\(name)") }
        #expect(text.contains(Program.version))
    }
}
