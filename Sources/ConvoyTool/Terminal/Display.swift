import Foundation
import Synchronization

/// All that the program writes: lines for people, lines for programs, and, on a terminal, a few lines at the bottom
/// that change.
///
/// Every line that stays pushes the changing ones down: they are erased, and drawn again under it.
final class Display: Sendable {
    private struct Screen {
        var live: [String] = []
        var drawn = 0
        var isCursorHidden = false
    }

    /// Where lines for people go: standard output, or standard error where programs read the output.
    private let people: Int32
    /// Whether lines can change after they were written.
    let isLive: Bool
    private let usesColour: Bool
    private let screen = Mutex(Screen())

    init(machineReadsOutput: Bool = false) {
        people = machineReadsOutput ? STDERR_FILENO : STDOUT_FILENO
        let environment = ProcessInfo.processInfo.environment
        let terminal = environment["TERM"] ?? ""
        isLive = isatty(people) == 1 && terminal != "dumb" && !terminal.isEmpty
        usesColour = isLive && (environment["NO_COLOR"] ?? "").isEmpty
    }

    /// Whether the terminal's language has more than ASCII.
    static let hasUnicode: Bool = {
        let environment = ProcessInfo.processInfo.environment
        let names = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }
        let language = (names.first { !$0.isEmpty } ?? "").lowercased()
        return language.contains("utf-8") || language.contains("utf8")
    }()

    // MARK: Lines that stay

    /// A line for people.
    func say(_ line: String) { write(line, to: people) }

    /// A line about something that went wrong, on standard error.
    func complain(_ line: String) { write("convoy: \(line)", to: STDERR_FILENO) }

    /// A line for programs, on standard output.
    func emit(_ line: String) { write(line, to: STDOUT_FILENO) }

    private func write(_ line: String, to descriptor: Int32) {
        screen.withLock { screen in
            erase(&screen)
            Self.put(line + "\n", to: descriptor)
            draw(&screen)
        }
    }

    // MARK: Lines that change

    /// Shows these lines under all others, in place of those that were shown. Does nothing where lines must stay.
    func show(_ lines: [String]) {
        guard isLive else { return }
        screen.withLock { screen in
            guard !lines.isEmpty || screen.drawn > 0 else { return }
            erase(&screen, keepingText: true)
            screen.live = lines
            draw(&screen)
        }
    }

    /// Takes the changing lines away, and gives the cursor back.
    func clear() {
        guard isLive else { return }
        screen.withLock { screen in
            erase(&screen)
            screen.live = []
            if screen.isCursorHidden { Self.put("\u{1B}[?25h", to: people) }
            screen.isCursorHidden = false
        }
    }

    /// Gives the cursor back, and nothing else; for a program that ends at once.
    static func restoreTerminal() {
        for descriptor in [STDOUT_FILENO, STDERR_FILENO] where isatty(descriptor) == 1 {
            put("\u{1B}[?7h\u{1B}[?25h\n", to: descriptor)
            return
        }
    }

    private func erase(_ screen: inout Screen, keepingText: Bool = false) {
        guard screen.drawn > 0 else { return }
        // Overwriting what stays in place does not flicker; the rest of the screen is cleared below it.
        Self.put("\u{1B}[\(screen.drawn)A\r" + (keepingText ? "" : "\u{1B}[J"), to: people)
        screen.drawn = 0
    }

    private func draw(_ screen: inout Screen) {
        guard !screen.live.isEmpty else {
            return
        }
        var text = screen.isCursorHidden ? "" : "\u{1B}[?25l"
        screen.isCursorHidden = true
        // A line that is too long is cut by the terminal: wrapped, it would be two, and the count wrong.
        text += "\u{1B}[?7l"
        for line in screen.live { text += line + "\u{1B}[K\n" }
        text += "\u{1B}[?7h\u{1B}[J"
        Self.put(text, to: people)
        screen.drawn = screen.live.count
    }

    // MARK: The terminal

    /// Columns and rows; 80 and 24 where there is no terminal.
    var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(people, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    enum Colour: Int {
        case red = 31
        case green = 32
        case yellow = 33
        case cyan = 36
        case bold = 1
        case dim = 2
    }

    func paint(_ text: String, _ colour: Colour) -> String {
        usesColour ? "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m" : text
    }

    /// Writes all of it. When the reader is gone, the program ends in order.
    private static func put(_ text: String, to descriptor: Int32) {
        var text = text
        let isBroken = text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while !rest.isEmpty {
                let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
                if count >= 0 {
                    rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
                } else if errno == EAGAIN {
                    var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = Glibc.poll(&poll, 1, -1)
                } else if errno != EINTR {
                    return true
                }
            }
            return false
        }
        if isBroken { Interruption.shared.trigger(.failure) }
    }
}
