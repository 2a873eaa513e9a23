import ConvoyTestSupport
import Foundation
import Testing

/// A real terminal that a test controls: a shell in a separate tmux server, which ends when this object is released.
final class Tmux: Sendable {
    /// Whether tmux is installed.
    static let isInstalled = (try? ProcessRunner.run("tmux", ["-V"]))?.status == 0
    /// The reason for skipping a test.
    static let installHint = "tmux. Debian, Ubuntu: apt-get install tmux"

    private let name = "convoy-\(UUID().uuidString)"
    private let directory: URL

    /// - Parameter directory: The working directory of the shell.
    init(columns: Int, rows: Int, in directory: URL) throws {
        self.directory = directory
        let shell = "env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY -u NO_COLOR PS1='$ ' bash --norc --noprofile"
        let environment = [
            "LC_ALL": "C.UTF-8", "HISTFILE": "/dev/null", "XDG_CONFIG_HOME": directory.path,
            "convoy": try ToolProcess.executable().path,
            // The timeout ends a shell that was left behind.
            "TMOUT": "120",
        ]
        try tmux(
            ["new-session", "-d", "-x", "\(columns)", "-y", "\(rows)", "-c", directory.path, shell],
            environment: environment)
    }

    deinit { _ = try? ProcessRunner.run("tmux", ["-L", name, "kill-server"]) }

    @discardableResult
    private func tmux(_ arguments: [String], environment: [String: String] = [:]) throws -> String {
        let result = try ProcessRunner.run(
            "tmux", ["-L", name, "-f", "/dev/null", "-u"] + arguments,
            environment: environment.merging(["LC_ALL": "C.UTF-8"]) { own, _ in own })
        try #require(result.status == 0, "tmux \(arguments.joined(separator: " ")): \(result.errorText)")
        return result.text
    }

    // MARK: Input

    /// Runs a command in the shell. Its output begins at the bottom of the window, below earlier lines.
    func run(_ command: String) async throws {
        try "for n in {1..60}; do echo line $n; done\n\(command)\n"
            .write(to: directory.appendingPathComponent(".command"), atomically: true, encoding: .utf8)
        try await waitFor("the prompt") { $0.last == "$" }
        try type(". ./.command", "Enter")
    }

    /// Presses keys, given as characters or as names such as `Enter` and `C-c`.
    func type(_ keys: String...) throws { try tmux(["send-keys"] + keys) }

    func resize(columns: Int) throws { try tmux(["resize-window", "-x", "\(columns)"]) }

    func resize(rows: Int) throws { try tmux(["resize-window", "-y", "\(rows)"]) }

    // MARK: Screen

    /// The rows of the window, without empty rows at the end and without trailing spaces.
    var rows: [String] { get throws { try captured([]) } }

    /// The rows including those that have scrolled out of the window.
    var allRows: [String] { get throws { try captured(["-S", "-"]) } }

    private func captured(_ arguments: [String]) throws -> [String] {
        var rows = try tmux(["capture-pane", "-p"] + arguments).components(separatedBy: "\n")
        while rows.last == "" { rows.removeLast() }
        return rows
    }

    /// Waits until the rows of the window meet a condition, and returns them.
    @discardableResult
    func waitFor(_ what: String, _ condition: ([String]) throws -> Bool) async throws -> [String] {
        var rows: [String] = []
        try await waitUntil("\(what) in:\n\(rows.joined(separator: "\n"))") {
            rows = try self.rows
            return try condition(rows)
        }
        return rows
    }

    var isCursorVisible: Bool {
        get throws { try tmux(["display-message", "-p", "#{cursor_flag}"]).hasPrefix("1") }
    }

    /// Returns the width of a string in this terminal, because terminals disagree about it.
    func width(of text: String) async throws -> Int {
        guard !text.isEmpty else { return 0 }
        try Data(text.utf8).write(to: directory.appendingPathComponent(".text"))
        let window = try tmux([
            "new-window", "-d", "-P", "-F", "#{window_id}", "-c", directory.path, "cat .text; exec sleep 60",
        ]).trimmingCharacters(in: .whitespacesAndNewlines)
        defer { _ = try? tmux(["kill-window", "-t", window]) }
        var column = 0
        try await waitUntil("\(text) in a window") {
            column = Int(try tmux(["display-message", "-p", "-t", window, "#{cursor_x}"]).dropLast()) ?? 0
            return column > 0
        }
        return column
    }
}
