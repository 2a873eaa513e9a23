/// The completion script for bash. It requires only bash.
enum BashCompletion {
    static var script: String {
        let first = Completion.commands + names(Completion.programOptions.map { ($0.name, $0.letter) })
        return """
            # Completion of convoy for bash. In ~/.bashrc: source <(convoy completion bash)
            _convoy_offer() {
                local IFS=$' \\t\\n'
                COMPREPLY=($(compgen -W "$1" -- "$2"))
            }

            _convoy() {
                local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} options=yes index
                COMPREPLY=()
                # The = of --option=VALUE is a word of its own.
                if [[ $current == = ]]; then
                    current=
                elif [[ $previous == = ]]; then
                    previous=${COMP_WORDS[COMP_CWORD-2]}
                fi
                if ((COMP_CWORD == 1)); then
                    _convoy_offer "\(first.joined(separator: " "))" "$current"
                    return
                fi
                for ((index = 2; index < COMP_CWORD; index++)); do
                    [[ ${COMP_WORDS[index]} == -- ]] && options= previous=
                done
                case ${COMP_WORDS[1]} in
            \(Command.allCases.map(branch).joined(separator: "\n"))
                -h | --help)
                    ((COMP_CWORD == 2)) && _convoy_offer "\(Completion.commands.joined(separator: " "))" "$current"
                    ;;
                esac
            }

            complete -F _convoy convoy
            """
    }

    private static func branch(_ command: Command) -> String {
        let options = OptionTable.options(of: command)
        let all = names(options.map { ($0.name, $0.letter) }).joined(separator: " ")
        var lines = ["    \(command.rawValue))"]
        let cases = values(of: options) + topics(of: command)
        if !cases.isEmpty { lines += ["        case $previous in"] + cases + ["        esac"] }
        lines += [
            "        if [[ $current == -* && $options ]]; then",
            "            _convoy_offer \"\(all)\" \"$current\"",
        ]
        if command == .help {
            lines += ["        elif ((COMP_CWORD == 2)); then", offer(Completion.commands, indent: 12)]
            for command in Command.allCases where !Completion.topics(of: command).isEmpty {
                lines += [
                    "        elif ((COMP_CWORD == 3)) && [[ ${COMP_WORDS[2]} == \(command.rawValue) ]]; then",
                    offer(Completion.topics(of: command), indent: 12),
                ]
            }
        } else if let words = Completion.words(of: command) {
            lines += ["        elif ((COMP_CWORD == 2)); then", offer(words, indent: 12)]
        }
        if Completion.takesFiles(command) {
            lines += ["        else", "            compopt -o default"]
        }
        return (lines + ["        fi", "        ;;"]).joined(separator: "\n")
    }

    /// Returns the branches for option values, one for each kind of value.
    private static func values(of options: [ToolOption]) -> [String] {
        var actions: [String] = []
        var patterns: [String: [String]] = [:]
        for option in options {
            guard let value = option.value else { continue }
            let action =
                switch value.offer {
                case .nothing: "return"
                case .file: "compopt -o default"
                case .directory: "compopt -o dirnames"
                case .oneOf(let words): offer(words, indent: 0)
                }
            if patterns[action] == nil { actions.append(action) }
            patterns[action, default: []] += names([(option.name, option.letter)])
        }
        return actions.flatMap { action in
            ["        \(patterns[action, default: []].joined(separator: " | ")))", "            \(action)"]
                + (action == "return" ? [] : ["            return"]) + ["            ;;"]
        }
    }

    private static func topics(of command: Command) -> [String] {
        let topics = Completion.topics(of: command)
        guard !topics.isEmpty else { return [] }
        return [
            "        --help | -h)", offer(topics, indent: 12), "            return", "            ;;",
        ]
    }

    private static func offer(_ words: [String], indent: Int) -> String {
        String(repeating: " ", count: indent) + "_convoy_offer \"\(words.joined(separator: " "))\" \"$current\""
    }

    private static func names(_ options: [(name: String, letter: Character?)]) -> [String] {
        options.flatMap { option in ["--\(option.name)"] + (option.letter.map { ["-\($0)"] } ?? []) }
    }
}
