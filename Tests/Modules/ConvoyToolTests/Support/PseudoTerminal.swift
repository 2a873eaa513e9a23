import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// A pseudo-terminal that a test controls: it reads the screen and types.
final class PseudoTerminal: Sendable {
    /// The path of the terminal.
    let path: String
    private let screen: Int32
    /// The descriptor of the terminal, which stays open so that the screen is readable while no program has opened the
    /// terminal.
    private let program: Int32
    private let shown = Locked<[UInt8]>([])

    init() throws {
        var (screen, program): (Int32, Int32) = (-1, -1)
        var name = [CChar](repeating: 0, count: 128)
        try #require(openpty(&screen, &program, &name, nil, nil) == 0)
        for descriptor in [screen, program] { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
        path = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        (self.screen, self.program) = (screen, program)
        _ = fcntl(screen, F_SETFL, fcntl(screen, F_GETFL) | O_NONBLOCK)
    }

    /// Closing the terminal also ends its programs with a SIGHUP.
    deinit {
        close(program)
        close(screen)
    }

    /// Returns a shell command that runs with this terminal as its controlling terminal (`/dev/tty`) and standard
    /// input. Standard output and standard error remain those of the shell.
    func command(_ command: String) -> String { "exec setsid --ctty --wait bash -c '\(command)' <\(path)" }

    /// The text that the terminal has shown so far.
    var text: String {
        shown.withLock { shown in
            var bytes = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = read(screen, &bytes, bytes.count)
                guard count > 0 else { return String(decoding: shown, as: UTF8.self) }
                shown += bytes[..<count]
            }
        }
    }

    func type(_ text: String) throws {
        let bytes = Array(text.utf8)
        try #require(write(screen, bytes, bytes.count) == bytes.count)
    }

    /// Waits until a string has been shown the given number of times.
    func waitFor(_ text: String, times: Int = 1) async throws {
        try await waitUntil("\(text.debugDescription) in \(self.text.debugDescription)") {
            self.text.components(separatedBy: text).count > times
        }
    }

    /// Whether the terminal echoes what is typed.
    var isEchoing: Bool {
        get throws {
            var settings = termios()
            try #require(tcgetattr(program, &settings) == 0)
            return settings.c_lflag & tcflag_t(ECHO) != 0
        }
    }
}
