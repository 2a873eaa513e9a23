import Foundation
import Testing

@testable import ConvoyTool

/// Files of `--env-file`.
@Suite struct EnvironmentFileTests {
    private func values(_ text: String) throws(ToolError) -> [String: String] {
        Dictionary(
            try EnvironmentFile.variables(in: Data(text.utf8), "env").map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
    }

    @Test(arguments: [
        ("A=x", "x"), ("A=x # c", "x"), ("A=x#c", "x#c"), ("A=#c", "#c"), ("A= # c", ""), ("A=", ""), ("A = x y ", "x y"),
        (#"A="x" # c"#, "x"), ("A='x' # c", "x"), (#"A="x # y""#, "x # y"), ("A='x # y'", "x # y"), ("export A=x", "x"),
        ("export\tA='x'", "x"), (#"A="a\nb\tc\"d\\e\$f\w""#, "a\nb\tc\"d\\e$f\\w"), (#"A='a\nb'"#, #"a\nb"#),
        ("A=\"one\r\ntwo\"\r\n", "one\ntwo"), (#"A=it's "so""#, #"it's "so""#), ("A=a=b==", "a=b=="), ("A=$B${C}", "$B${C}"),
        ("# c\n\n  A=x\r\n", "x"), ("\u{FEFF}A=1\n", "1"), ("A=1\nA=2", "2"), (#"A="""#, ""), ("A=\"é\u{301}\"", "é\u{301}"),
    ])
    func `values are parsed as in dotenv`(text: String, value: String) throws {
        #expect(try values(text) == ["A": value])
    }

    @Test(arguments: [
        ("A", "env:1: expected NAME=VALUE"), ("A=1\n=2", "env:2: expected NAME=VALUE"),
        (
            "A B=1",
            "env:1: expected NAME=VALUE"
        ),
        ("A=1\nB=\"x\ny", "env:2: the closing quote is missing"),
        (
            "A='x'y",
            "env:1: unexpected text after the closing quote"
        ),
    ])
    func `an invalid line is reported with its number`(text: String, message: String) {
        let error = #expect(throws: ToolError.self) { try values(text) }
        #expect(error?.text == message && error?.status == .wrongUsage)
    }
}
