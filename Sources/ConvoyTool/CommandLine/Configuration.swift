import ConvoySupport
import Foundation

/// The default options from `~/.config/convoy/config.json`.
enum Configuration {
    /// The maximum size of the file, in bytes.
    static let maximumLength = 1 << 20

    /// Returns the option values in the user's file, by option name. A missing file has no values.
    ///
    /// - Throws: A usage error, with line and column if it concerns the contents.
    static func read() throws(ToolError) -> [String: [String]] {
        let environment = ProcessInfo.processInfo.environment
        guard let path = path(in: environment), let data = try contents(of: path) else { return [:] }
        do throws(JSONProblem) {
            return try values(in: data, home: environment["HOME"])
        } catch {
            throw .usage("\(Printable.line(path)):\(error.position.line):\(error.position.column): \(error.text)")
        }
    }

    /// Returns the path of the file according to the XDG Base Directory Specification, which ignores variables without an
    /// absolute path. Returns nil without a home directory.
    static func path(in environment: [String: String]) -> String? {
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            return "\(directory)/convoy/config.json"
        }
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return "\(home)/.config/convoy/config.json"
    }

    // MARK: The file

    /// Returns the contents of the file, or nil if it does not exist.
    private static func contents(of path: String) throws(ToolError) -> Data? {
        let name = "the configuration \(Printable.line(path))"
        // Opening a pipe must not block the program.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw .usage("cannot read \(name): \(SystemError().text)")
        }
        defer { close(descriptor) }
        try check(descriptor, name)
        return try InputFile.contents(of: descriptor, called: name, limit: maximumLength)
    }

    /// Checks that only the user or root can have written the file, because it can disable
    /// certificate checks.
    private static func check(_ descriptor: Int32, _ name: String) throws(ToolError) {
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw .usage("cannot read \(name): \(SystemError().text)") }
        guard facts.st_mode & S_IFMT == S_IFREG else { throw .usage("\(name) is not a file") }
        guard facts.st_uid == geteuid() || facts.st_uid == 0 else {
            throw .usage("\(name) belongs to another user and is ignored; run with --no-config")
        }
        guard facts.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw .usage("other users can write to \(name): run chmod go-w, or use --no-config")
        }
    }

    // MARK: The contents

    /// Returns the option values by option name; a flag has an empty array.
    ///
    /// - Parameter home: The replacement for `~` in a leading `~/` of a path.
    static func values(in data: Data, home: String?) throws(JSONProblem) -> [String: [String]] {
        let root = try JSONValue(parsing: data)
        guard case .object(let members) = root.content else {
            throw root.problem("the configuration must be an object: {\"jobs\": 4}")
        }
        var values: [String: [String]] = [:]
        for member in members {
            let option = try option(of: member)
            guard var texts = try texts(of: member.value, option) else { continue }
            if option.value?.offer == .file || option.value?.offer == .directory, let home {
                texts = texts.map { $0.hasPrefix("~/") ? home + $0.dropFirst() : $0 }
            }
            for other in OptionTable.alternatives(to: option.name) { values[other] = nil }
            values[option.name] = texts
        }
        return values
    }

    private static func option(of member: JSONValue.Member) throws(JSONProblem) -> ToolOption {
        let name = Printable.line(member.key)
        let known = OptionTable.all.filter { !$0.commands.isDisjoint(with: Command.transferring) }
        guard let option = known.first(where: { $0.name == member.key }) else {
            throw JSONProblem(
                text: "unknown option \"\(name)\": the keys are long option names without the leading hyphens",
                position: member.position)
        }
        guard option.isConfigurable else {
            throw JSONProblem(
                text: "\"\(name)\" applies to a single run and cannot be in the configuration", position: member.position)
        }
        return option
    }

    /// Returns the values of an option (empty for a flag), or nil if it is not set.
    private static func texts(of value: JSONValue, _ option: ToolOption) throws(JSONProblem) -> [String]? {
        if value.isNull { return nil }
        guard let kind = option.value else {
            guard case .bool(let isOn) = value.content else { throw value.problem("\(option.name) must be true or false") }
            return isOn ? [] : nil
        }
        if option.repeats, case .array(let elements) = value.content {
            let texts = try elements.map { element throws(JSONProblem) in
                guard case .string(let text) = element.content else {
                    throw element.problem("\(option.name) must be an array of strings")
                }
                return try checked(text, element)
            }
            return texts.isEmpty ? nil : texts
        }
        switch (value.content, kind.offer) {
        case (.string(let text), .oneOf(let words)), (.number(let text), .oneOf(let words)):
            guard words.contains(text) else {
                throw value.problem("\(option.name) must be \(WordChoice.text(words))")
            }
            return [text]
        case (.string(let text), _): return [try checked(text, value)]
        case (.number(let text), _): return [text]
        default:
            throw value.problem(
                "\(option.name) must be \(option.repeats ? "a string or an array of strings" : "a string or a number")")
        }
    }

    /// Returns the string, or throws if it could not be a command-line argument.
    private static func checked(_ text: String, _ value: JSONValue) throws(JSONProblem) -> String {
        guard !text.unicodeScalars.contains("\0") else { throw value.problem("an option cannot contain a NUL character") }
        return text
    }
}
