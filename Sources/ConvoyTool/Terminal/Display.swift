import ConvoySupport
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
        /// Whether the terminal is somebody else's: the program is being stopped.
        var isAway = false
        /// The first failure of a descriptor, which is not told yet.
        var failure: (descriptor: Int32, error: SystemError)?
    }

    /// Where lines for people go: standard output, or standard error where programs read the output.
    private let people: Int32
    /// Whether lines can change after they were written.
    let isLive: Bool
    private let usesColour: Bool
    /// Whether what went wrong is shown on a terminal, and in colour.
    private let complaintsAreLive: Bool
    private let complaintsUseColour: Bool
    private let screen = Mutex(Screen())

    init(machineReadsOutput: Bool = false) {
        people = machineReadsOutput ? STDERR_FILENO : STDOUT_FILENO
        let environment = ProcessInfo.processInfo.environment
        let terminal = environment["TERM"] ?? ""
        let obeys = terminal != "dumb" && !terminal.isEmpty
        let likesColour = (environment["NO_COLOR"] ?? "").isEmpty
        isLive = obeys && isatty(people) == 1
        usesColour = isLive && likesColour
        complaintsAreLive = obeys && isatty(STDERR_FILENO) == 1
        complaintsUseColour = complaintsAreLive && likesColour
        Self.current.withLock { $0 = self }
    }

    /// Whether the terminal's language has more than ASCII.
    static let hasUnicode: Bool = {
        let environment = ProcessInfo.processInfo.environment
        let names = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }
        let language = (names.first { !$0.isEmpty } ?? "").lowercased()
        return language.contains("utf-8") || language.contains("utf8")
    }()

    // MARK: Lines that stay

    /// A line for people; on standard error, once standard output has failed.
    func say(_ line: String) { write(line, to: Self.failed.withLock { $0.contains(people) } ? STDERR_FILENO : people) }

    /// A line about something that went wrong, on standard error.
    ///
    /// - Parameter isMarked: whether it stands among the lines of what went well.
    func complain(_ line: String, isMarked: Bool = false) {
        let mark = isMarked && complaintsAreLive ? (Self.hasUnicode ? "✗ " : "x ") : ""
        write("convoy: \(complaintsUseColour ? Self.painted(mark, .red) : mark)\(line)", to: STDERR_FILENO)
    }

    /// A line for programs, on standard output.
    func emit(_ line: String) { write(line, to: STDOUT_FILENO) }

    private func write(_ line: String, to descriptor: Int32) {
        change { screen in
            erase(&screen)
            put(line + "\n", to: descriptor, &screen)
            draw(&screen)
        }
    }

    // MARK: Failures

    private static let failed = Mutex<Set<Int32>>([])

    /// Whether something could not be written.
    static var hasFailed: Bool { failed.withLock { !$0.isEmpty } }

    /// Changes the screen. When standard output cannot be written to, that is told on standard error, and the program
    /// ends in order; nobody can be told that of standard error.
    private func change(_ body: (inout Screen) -> Void) {
        let failure = screen.withLock { screen in
            body(&screen)
            return screen.failure.take()
        }
        guard let (descriptor, error) = failure else { return }
        let isFirst = Self.failed.withLock { $0.insert(descriptor).inserted }
        guard isFirst, descriptor == STDOUT_FILENO else { return }
        complain("cannot write standard output: \(error.text)")
        Interruption.shared.trigger(.failure)
    }

    private func put(_ text: String, to descriptor: Int32, _ screen: inout Screen) {
        do throws(SystemError) {
            try StandardStreams.write(text, to: descriptor)
        } catch {
            if screen.failure == nil { screen.failure = (descriptor, error) }
        }
    }

    // MARK: Lines that change

    /// Shows these lines under all others, in place of those that were shown. Does nothing where lines must stay.
    func show(_ lines: [String]) {
        guard isLive else { return }
        change { screen in
            guard !lines.isEmpty || screen.drawn > 0 else { return }
            erase(&screen, keepingText: true)
            screen.live = lines
            draw(&screen)
        }
    }

    /// Takes the changing lines away, and gives the cursor back.
    func clear() {
        guard isLive else { return }
        change { screen in
            screen.live = []
            giveBack(&screen)
        }
    }

    private func giveBack(_ screen: inout Screen) {
        erase(&screen)
        if screen.isCursorHidden { put("\u{1B}[?25h", to: people, &screen) }
        screen.isCursorHidden = false
    }

    private func erase(_ screen: inout Screen, keepingText: Bool = false) {
        guard screen.drawn > 0 else { return }
        // Overwriting what stays in place does not flicker; the rest of the screen is cleared below it.
        put("\u{1B}[\(screen.drawn)A\r" + (keepingText ? "" : "\u{1B}[J"), to: people, &screen)
        screen.drawn = 0
    }

    private func draw(_ screen: inout Screen) {
        guard !screen.live.isEmpty, !screen.isAway else { return }
        var text = screen.isCursorHidden ? "" : "\u{1B}[?25l"
        screen.isCursorHidden = true
        // A line that is too long is cut by the terminal: wrapped, it would be two, and the count wrong.
        text += "\u{1B}[?7l"
        for line in screen.live { text += line + "\u{1B}[K\n" }
        text += "\u{1B}[?7h\u{1B}[J"
        put(text, to: people, &screen)
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

    func paint(_ text: String, _ colour: Colour) -> String { usesColour ? Self.painted(text, colour) : text }

    private static func painted(_ text: String, _ colour: Colour) -> String {
        text.isEmpty ? "" : "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }

    // MARK: Being stopped

    /// The display that the terminal shows.
    private static let current = Mutex<Display?>(nil)

    /// What a signal does to the terminal, if this program has changed anything about it.
    static let terminal = Interruption.Terminal(
        giveBack: {
            current.withLock { $0 }?.changeSoon { display, screen in
                screen.isAway = true
                if StandardStreams.hasRoom(display.people) { display.giveBack(&screen) }
            }
        },
        takeAgain: { current.withLock { $0 }?.changeSoon { $1.isAway = false } },
        // What was drawn is where it was, with something else below it.
        drawAnew: { current.withLock { $0 }?.changeSoon { ($1.drawn, $1.isCursorHidden) = (0, false) } })

    /// Changes the screen, unless another thread is writing all the while: nobody may read what it writes, and a
    /// signal must not wait for that.
    private func changeSoon(_ body: (Display, inout Screen) -> Void) {
        for _ in 0..<100 {
            if screen.withLockIfAvailable({ body(self, &$0) }) != nil { return }
            usleep(1000)
        }
    }
}
