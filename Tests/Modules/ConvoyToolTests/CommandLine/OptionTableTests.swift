import Foundation
import Testing

@testable import ConvoyTool

/// Tests that everything that lists options uses the table of options.
@Suite struct OptionTableTests {
    /// An option of a command.
    struct Case: Sendable, CustomTestStringConvertible {
        let command: Command
        let option: ToolOption
        var testDescription: String { "\(command.rawValue) --\(option.name)" }
    }

    static let cases = Command.allCases.flatMap { command in
        OptionTable.options(of: command).map { Case(command: command, option: $0) }
    }

    /// Returns a value that the option accepts.
    private func value(for option: ToolOption) -> String {
        if case .oneOf(let words) = option.value?.offer { words[0] } else { "x" }
    }

    @Test(arguments: Command.allCases) func `option names and letters are unique`(_ command: Command) {
        let options = OptionTable.options(of: command)
        #expect(Set(options.map(\.name)).count == options.count)
        #expect(Set(options.compactMap(\.letter)).count == options.compactMap(\.letter).count)
    }

    @Test(arguments: cases) func `an option is parsed by its name and by its letter`(_ element: Case) throws {
        let (option, command) = (element.option, element.command)
        let letters = option.letter.map { ["-\($0)"] } ?? []
        guard option.value != nil else {
            for form in ["--\(option.name)"] + letters {
                let options = try Options([form, "a"], command: command)
                #expect(options.has(option.name) && options.arguments == ["a"])
            }
            #expect(throws: ToolError.self) { try Options(["--\(option.name)=x"], command: command) }
            return
        }
        let value = value(for: option)
        for form in [["--\(option.name)", value], ["--\(option.name)=\(value)"]]
            + letters.flatMap({ [[$0, value], [$0 + value]] })
        {
            let options = try Options(form + ["a"], command: command)
            #expect(options.all(option.name) == [value] && options.arguments == ["a"])
            let twice = try? Options(form + form, command: command)
            #expect(twice?.all(option.name) == (option.repeats ? [value, value] : nil))
        }
        #expect(throws: ToolError.self) { try Options(["--\(option.name)"], command: command) }
    }

    @Test(arguments: cases) func `the help lists the option and its summary`(_ element: Case) throws {
        let (option, command) = (element.option, element.command)
        let words = Topic.topics(of: command).isEmpty ? [] : [option.topic.rawValue]
        let page = try Help.page([command.rawValue] + words).replacing(/\n +/, with: " ")
        let names = option.letter == nil ? option.usage : option.usageWithLetter
        #expect(page.contains("\(names)  "))
        #expect(page.contains(option.summary))
    }

    /// The completion scripts and their words, created once for all options.
    private static let scripts = Completion.Shell.allCases.map { shell in
        let text = Completion.script(for: shell)
        let separators = CharacterSet(charactersIn: " \n\"'(){},[=+")
        return (shell: shell, text: text, words: Set(text.components(separatedBy: separators)))
    }

    @Test(arguments: cases) func `each completion script contains the option`(_ element: Case) {
        let option = element.option
        for (shell, script, words) in Self.scripts {
            let long = shell == .fish ? script.contains("-l \(option.name) ") : words.contains("--\(option.name)")
            #expect(long, "\(shell)")
            guard let letter = option.letter else { continue }
            #expect(shell == .fish ? script.contains("-s \(letter) ") : words.contains("-\(letter)"), "\(shell)")
        }
    }

    private static let manualLines = Set(Manual.text.components(separatedBy: "\n"))

    @Test(arguments: cases) func `the manual page contains the option`(_ element: Case) {
        let option = element.option
        let letter = option.letter.map { "\\fB\\-\($0)\\fR, " } ?? ""
        let value = option.value.map { " \\fI\(Roff.escaped($0.placeholder))\\fR" } ?? ""
        #expect(Self.manualLines.contains("\(letter)\\fB\(Roff.escaped("--\(option.name)"))\\fR\(value)"))
    }

    @Test(arguments: cases.filter { Command.transferring.contains($0.command) })
    func `the configuration accepts an option unless it applies to a single run`(_ element: Case) throws {
        let option = element.option
        let value = value(for: option)
        let json = option.value == nil ? "true" : "\"\(value)\""
        let data = Data("{\"\(option.name)\": \(json)}".utf8)
        guard option.isConfigurable else {
            #expect(throws: JSONProblem.self) { try Configuration.values(in: data, home: nil) }
            return
        }
        let values = try Configuration.values(in: data, home: nil)
        #expect(values == [option.name: option.value == nil ? [] : [value]])
        var options = try Options([], command: element.command)
        options.merge(values)
        #expect(options.has(option.name))
    }
}
