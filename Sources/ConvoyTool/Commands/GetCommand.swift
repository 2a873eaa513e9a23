import Convoy
import ConvoyOperations
import ConvoySupport
import Foundation

/// `convoy get`: downloads URLs.
enum GetCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        let files = try FileOptions(options)
        let display = try Display(
            options, printsBodies: files.isStandardOutput || (files.printsHead && !options.has("json")))
        let feed = try DownloadFeed(options, files, display)
        if options.has("dry-run") { return Preview(display: display).print(feed) }
        defer { feed.settings.trace.finish() }
        let run = TransferRun(feed.settings, display: display, options: options)
        let status = feed.settings.finish(
            run.run(feed) { files.printsHead ? "\($0) answered" : "\($0) downloaded" }, display)
        if case .interrupted = status, !files.isStreamed { display.complain(ContinuingLine.sentence(options)) }
        return status
    }
}

/// The command that resumes an interrupted run.
enum ContinuingLine {
    /// The maximum length of the command in bytes. A longer command would fill the screen.
    private static let longest = 240

    /// Returns the last line of an interrupted run. If the command would be too long, the URLs are written to a file.
    static func sentence(_ options: Options) -> String {
        var line = text(options)
        if line.utf8.count > longest, !options.arguments.isEmpty {
            guard let file = written(options.arguments) else {
                return "to resume, run the same command again with --no-clobber"
            }
            line = text(options, list: file)
        }
        var conditions: [String] = []
        if options.all("input-file").contains("-") { conditions.append("with the same input") }
        if line.contains(Redaction.mask) { conditions.append("with the secrets instead of \(Redaction.mask)") }
        return (["to resume"] + conditions).joined(separator: ", ") + ": \(line)"
    }

    /// Returns the command line of `get`, without passwords, and with --no-clobber so that complete files are not downloaded
    /// again.
    ///
    /// - Parameter list: A list that contains the URLs and replaces them on the command line.
    static func text(_ options: Options, list: String? = nil) -> String {
        var words = ["convoy", "get"]
        let isOne = options.arguments.count == 1 && options.all("input-file").isEmpty
        if !isOne, OptionTable.alternatives(to: "no-clobber").union(["no-clobber"]).isDisjoint(with: options.names) {
            words.append("--no-clobber")
        }
        for (option, value) in options.given {
            words.append(option.letter.map { "-\($0)" } ?? "--\(option.name)")
            if let value { words.append(shown(value, of: option)) }
        }
        if let list {
            words += ["-i", list]
        } else {
            if options.arguments.contains(where: { $0.hasPrefix("-") && $0 != "-" }) { words.append("--") }
            words += options.arguments.map { Shown.url($0) }
        }
        return Printable.line(words.map { ShellText.word($0) }.joined(separator: " "))
    }

    /// Writes a list of URLs, which only this user can read, because the URLs may contain secrets.
    ///
    /// - Returns: The name of the list, or nil if it cannot be written.
    private static func written(_ urls: [String]) -> String? {
        for number in 0..<100 {
            let name = number == 0 ? "convoy-urls.txt" : "convoy-urls.\(number).txt"
            let descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if descriptor < 0, errno == EEXIST { continue }
            guard descriptor >= 0 else { return nil }
            defer { close(descriptor) }
            do throws(SystemError) {
                try StandardStreams.write(urls.map { "\($0)\n" }.joined(), to: descriptor)
                return name
            } catch {
                unlink(name)
                return nil
            }
        }
        return nil
    }

    private static func shown(_ value: String, of option: ToolOption) -> String {
        switch option.name {
        case "user":
            // Keep only the user name: the next run prompts for the password. A lone colon stands for Kerberos.
            guard value != ":", let colon = value.firstIndex(of: ":") else { return value }
            return String(value[..<colon])
        case "header":
            guard let colon = value.firstIndex(of: ":") else { return value }
            let name = value[..<colon].trimmingCharacters(in: .whitespaces)
            let text = value[value.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            return "\(name): \(Shown.value(name, text))"
        default: return Shown.text(value)
        }
    }
}
