/// The completion script for fish.
enum FishCompletion {
    static var script: String {
        var lines = [
            """
            # Completion of convoy for fish: convoy completion fish >~/.config/fish/completions/convoy.fish
            function __convoy_begins
                test (count (commandline -opc)) -eq 1
            end

            function __convoy_runs
                set -l words (commandline -opc)
                test (count $words) -gt 1; and contains -- $words[2] $argv
            end

            function __convoy_asks
                set -l words (commandline -opc)
                test (count $words) -gt 2; or return 1
                if test $words[2] = help
                    test (count $words) -eq 3; and test $words[3] = $argv[1]
                else
                    test $words[2] = $argv[1]; and contains -- $words[-1] -h --help
                end
            end

            complete -c convoy -f
            """
        ]
        for command in Command.allCases {
            lines.append(complete("__convoy_begins", "-a \(command.rawValue)", command.summary))
        }
        for option in Completion.programOptions {
            lines.append(complete("__convoy_begins", names(option.name, option.letter), option.summary))
        }
        lines.append(
            "complete -c convoy -n '__convoy_runs help -h --help; and test (count (commandline -opc)) -eq 2' "
                + "-a '\(Completion.commands.joined(separator: " "))'")
        let shells = Completion.Shell.allCases.map(\.rawValue).joined(separator: " ")
        lines.append("complete -c convoy -n '__convoy_runs completion' -a '\(shells)'")
        for command in [Command.queue, .storage] {
            let actions = (Completion.words(of: command) ?? []).joined(separator: " ")
            lines.append(
                "complete -c convoy -n '__convoy_runs \(command.rawValue); and test (count (commandline -opc)) -eq 2' "
                    + "-a '\(actions)'")
        }
        for command in Command.allCases where Completion.takesFiles(command) {
            let name = command.rawValue
            let isArgument = Completion.words(of: command) == nil ? "" : "; and test (count (commandline -opc)) -gt 2"
            lines.append("complete -c convoy -n '__convoy_runs \(name); and not __convoy_asks \(name)\(isArgument)' -F")
        }
        for command in Command.allCases {
            for subject in Help.subjects(of: command) {
                lines.append(complete("__convoy_asks \(command.rawValue)", "-a \(subject.left)", subject.right))
            }
        }
        for option in OptionTable.all { lines.append(line(option)) }
        return lines.joined(separator: "\n")
    }

    private static func line(_ option: ToolOption) -> String {
        let commands = Command.allCases.filter(option.commands.contains).map(\.rawValue).joined(separator: " ")
        let value =
            switch option.value?.offer {
            case nil: ""
            case .nothing: " -x"
            case .file: " -r -F"
            case .directory: " -x -a '(__fish_complete_directories)'"
            case .oneOf(let words): " -x -a '\(words.joined(separator: " "))'"
            }
        return complete("__convoy_runs \(commands)", names(option.name, option.letter) + value, option.summary)
    }

    private static func complete(_ condition: String, _ what: String, _ summary: String) -> String {
        "complete -c convoy -n '\(condition)' \(what) -d \(quoted(summary))"
    }

    private static func names(_ name: String, _ letter: Character?) -> String {
        (letter.map { "-s \($0) " } ?? "") + "-l \(name)"
    }

    private static func quoted(_ text: String) -> String {
        "'\(text.replacing("\\", with: "\\\\").replacing("'", with: "\\'"))'"
    }
}
