import ConvoySerialization

/// A reader for curl command lines, as people write them and browsers copy them.
package enum CurlCommandLine {
    /// The reason a command line cannot be converted to a manifest.
    package struct Problem: Error, Equatable, CustomStringConvertible {
        /// The message, with the invalid value.
        package let description: String
    }

    /// Returns the requests of all curl commands in a string, with names for a manifest. The notes of a request list
    /// the options that a manifest cannot express.
    ///
    /// A command with several URLs, a URL pattern or `--next` becomes several requests, each of which runs after the
    /// previous one.
    ///
    /// - Parameter text: One or more commands of a POSIX shell, or one command of the Windows command prompt.
    /// - Throws: ``Problem`` for unclosed quotes, command substitutions, unknown options, a missing URL, a GET with a
    ///   body, and values that a manifest rejects.
    package static func drafts(_ text: String) throws(Problem) -> [(name: String, draft: RequestDraft)] {
        var drafts: [RequestDraft] = [], notes: [String] = []
        for command in try commands(in: text) {
            guard case .curl(let command) = command else {
                if case .other(let name) = command { notes.append("\(name): left out; only curl commands are imported") }
                continue
            }
            for arguments in command.words.split(whereSeparator: { $0 == "--next" || $0 == "-:" }) {
                var reader = CurlReader(command), arguments = arguments[...]
                while let word = arguments.popFirst() { try reader.take(word, &arguments) }
                drafts += try reader.drafts()
            }
            if command.words.isEmpty { throw Problem(description: "The command has no URL.") }
        }
        guard !drafts.isEmpty else { throw Problem(description: "The command has no URL.") }
        drafts[0].notes = notes + drafts[0].notes
        if drafts.count == 1 {
            if let reason = drafts[0].failure { throw Problem(description: reason) }
            return [("request", drafts[0])]
        }
        removeOverwrittenOutputs(of: &drafts)
        var named = RequestDraft.named(drafts)
        for index in named.indices {
            if let reason = named[index].draft.failure { throw Problem(description: reason) }
            // Continue after a failure, as curl does.
            if index + 1 < named.count { named[index].draft.others["onFailure"] = "continue" }
            if index > 0 { named[index].draft.others["after"] = [.string(named[index - 1].name)] }
        }
        return named
    }

    /// Removes outputs that a later request would overwrite. In a manifest, all outputs must be different.
    private static func removeOverwrittenOutputs(of drafts: inout [RequestDraft]) {
        var taken: Set<String> = []
        for index in drafts.indices.reversed() {
            guard let output = drafts[index].output, !taken.insert(output).inserted else { continue }
            drafts[index].output = nil
            drafts[index].notes.append("-o '\(output)': left out; a later request has the same output")
        }
    }

    // MARK: The commands

    private enum Command {
        /// A curl command, with its arguments as words.
        case curl(ShellWords.Command)
        /// A command of another program, with the name of the program.
        case other(String)
    }

    private static func commands(in text: String) throws(Problem) -> [Command] {
        var found: [Command] = [], values: [String: String] = [:]
        let simple =
            CommandPrompt.isUsed(in: text)
            ? [ShellWords.Command(words: try CommandPrompt.words(text))] : try ShellWords.split(text)
        for command in simple {
            var command = command
            func assigned(_ text: String) -> String {
                values.reduce(text) { $0.replacing(RequestDraft.reference(to: $1.key), with: $1.value) }
            }
            command.words = command.words.map(assigned)
            command.inputText = command.inputText.map(assigned)
            command.inputFile = command.inputFile.map(assigned)
            let words = command.words.first == "export" ? command.words.dropFirst() : command.words[...]
            let pairs = words.map(assignment)
            if !pairs.isEmpty, pairs.allSatisfy({ $0 != nil }) {
                for case let (name, value)? in pairs { values[name] = value }
                continue
            }
            guard let index = curlIndex(command.words) else {
                found.append(.other(command.words.first.map(programName) ?? ""))
                continue
            }
            command.words.removeFirst(index + 1)
            found.append(.curl(command))
        }
        let hasCurl = found.contains { if case .curl = $0 { true } else { false } }
        // Without the word `curl`, the string consists of the arguments only.
        if !hasCurl, !found.isEmpty, let command = simple.first { found[0] = .curl(command) }
        return found
    }

    /// Returns the position of the word `curl`, after prompts, assignments and programs that run another program.
    private static func curlIndex(_ words: [String]) -> Int? {
        let wrappers: Set<String> = ["sudo", "time", "env", "command", "exec", "nohup"]
        for (index, word) in words.enumerated() {
            if ["curl", "curl.exe"].contains(programName(word)) { return index }
            let isPrompt = word.last.map { "$%#>".contains($0) } ?? false
            guard isPrompt || wrappers.contains(word) || assignment(word) != nil else { return nil }
        }
        return nil
    }

    private static func programName(_ word: String) -> String {
        String(word.split(whereSeparator: { "/\\".contains($0) }).last ?? "")
    }

    private static func assignment(_ word: String) -> (name: String, value: String)? {
        guard let equals = word.firstIndex(of: "="), ShellWords.isName(String(word[..<equals])) else { return nil }
        return (String(word[..<equals]), String(word[word.index(after: equals)...]))
    }
}
