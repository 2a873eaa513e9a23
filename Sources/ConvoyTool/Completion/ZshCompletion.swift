/// The completion script for zsh, based on `_arguments`.
enum ZshCompletion {
    static var script: String {
        let commands = Command.allCases.map { "        \(quoted("\($0.rawValue):\(escaped($0.summary))"))" }
        let program = Completion.programOptions.map { option in
            "        '(- *)'\(names(option.name, option.letter, suffix: ""))\(quoted("[\(escaped(option.summary))]"))"
        }
        return """
            #compdef convoy
            # Completion of convoy for zsh. In ~/.zshrc, below compinit: source <(convoy completion zsh)
            _convoy_commands() {
                local -a commands=(
            \(commands.joined(separator: "\n"))
                )
                _describe -t commands command commands
            }

            _convoy_topics() {
                local -a topics
                case $1 in
            \(Command.allCases.compactMap(topics).joined(separator: "\n"))
                esac
                (( $#topics )) && _describe -t topics topic topics
            }

            _convoy() {
                local curcontext=$curcontext state line
                local -A opt_args
                _arguments -C -A '-*' \\
            \(program.map { "\($0) \\" }.joined(separator: "\n"))
                    '1: :_convoy_commands' '*:: :->rest' && return
                [[ $state == rest ]] || return
                curcontext=${curcontext%:*}-$words[1]:
                if [[ $words[CURRENT] != -* && $words[CURRENT-1] == (-h|--help) ]]; then
                    _convoy_topics $words[1]
                    return
                fi
                case $words[1] in
            \(Command.allCases.map(branch).joined(separator: "\n"))
                esac
            }

            if [[ $funcstack[1] == _convoy ]]; then
                _convoy "$@"
            else
                compdef _convoy convoy
            fi
            """
    }

    private static func topics(of command: Command) -> String? {
        let subjects = Help.subjects(of: command)
        guard !subjects.isEmpty else { return nil }
        let words = subjects.map { quoted("\($0.left):\(escaped($0.right))") }.joined(separator: " ")
        return "    \(command.rawValue)) topics=(\(words)) ;;"
    }

    private static func branch(_ command: Command) -> String {
        var lines = OptionTable.options(of: command).map { "            \(specification($0))" }
        switch command {
        case .get: lines.append("            '*:URL:_urls'")
        case .put: lines.append("            '*:file or URL:_files'")
        case .events: lines.append("            '1:URL:_urls'")
        case .run: lines.append("            '1:manifest:_files'")
        case .send: lines.append("            '1:method:(GET HEAD POST PUT PATCH DELETE)' '2:URL:_urls' '*:item:_files'")
        case .importing: lines.append("            '1:what:(curl har)' '*:file:_files'")
        case .check: lines.append("            '*:manifest:_files'")
        case .help:
            lines.append("            '1: :_convoy_commands' '2: :{ _convoy_topics $line[1] }'")
        case .completion:
            lines.append("            '1:shell:(\(Completion.Shell.allCases.map(\.rawValue).joined(separator: " ")))'")
        case .queue:
            let actions = QueueAction.allCases.map(\.rawValue).joined(separator: " ")
            lines.append("            '1:action:(\(actions))' '*:URL or entry:_urls'")
        case .storage:
            let actions = StorageAction.allCases.map(\.rawValue).joined(separator: " ")
            lines.append("            '1:action:(\(actions))' '*:file or object:_files'")
        case .work, .demo, .manual: break
        }
        return """
                \(command.rawValue))
                    _arguments -s -S \\
            \(lines.joined(separator: " \\\n"))
                    ;;
            """
    }

    private static func specification(_ option: ToolOption) -> String {
        let all = ([option.letter.map { "-\($0)" }].compactMap(\.self) + ["--\(option.name)"]).joined(separator: " ")
        let prefix = option.repeats ? "'*'" : option.name == "help" ? "'(- *)'" : "'(\(all))'"
        let summary = "[\(escaped(option.summary))]"
        guard let value = option.value else {
            return "\(prefix)\(names(option.name, option.letter, suffix: ""))\(quoted(summary))"
        }
        let action =
            switch value.offer {
            case .nothing: ""
            case .file: "_files"
            case .directory: "_files -/"
            case .oneOf(let words): "(\(words.joined(separator: " ")))"
            }
        let rest = "\(summary):\(escaped(value.placeholder)):\(action)"
        return "\(prefix)\(names(option.name, option.letter, suffix: option.letter == nil ? "=" : nil))\(quoted(rest))"
    }

    /// Returns the names, in braces if there are two.
    ///
    /// - Parameter suffix: The text after the long name, or nil for an option whose value may follow both names.
    private static func names(_ name: String, _ letter: Character?, suffix: String?) -> String {
        guard let letter else { return "--\(name)\(suffix ?? "=")" }
        return suffix.map { "{-\(letter),--\(name)\($0)}" } ?? "{-\(letter)+,--\(name)=}"
    }

    /// Escapes colons and brackets.
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { $0 += "\\:[]".contains($1) ? "\\\($1)" : "\($1)" }
    }

    private static func quoted(_ text: String) -> String { "'\(text.replacing("'", with: "'\\''"))'" }
}
