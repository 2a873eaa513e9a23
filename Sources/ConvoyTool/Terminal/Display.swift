import ConvoySupport
import Foundation
import Synchronization

/// The output of the program: lines for people, lines for programs, and, on a terminal, a few changing lines at the
/// bottom.
///
/// A permanent line pushes the changing ones down: they are erased, and redrawn below it.
final class Display: Sendable {
    private struct Screen {
        var live: [String] = []
        var drawn = 0
        var isCursorHidden = false
        /// Whether the program is being stopped, so that the terminal must not be used.
        var isAway = false
        /// The first failure of a descriptor, if it is not reported yet.
        var failure: (descriptor: Int32, error: SystemError)?
    }

    /// Where lines for people go: standard output, or standard error if programs read the output.
    private let people: Int32
    private let isQuiet: Bool
    /// Whether there can be changing lines.
    let isLive: Bool
    /// Whether somebody wants to know how far transfers are.
    let showsProgress: Bool
    /// Whether that is printed as lines.
    let printsProgress: Bool
    private let usesColour: Bool
    /// Whether standard error is a terminal, and in colour.
    private let complaintsAreLive: Bool
    private let complaintsUseColour: Bool
    private let screen = Mutex(Screen())

    init(_ style: Style = Style()) {
        people = style.machineReadsOutput ? STDERR_FILENO : STDOUT_FILENO
        isQuiet = style.isQuiet
        let environment = ProcessInfo.processInfo.environment
        let terminal = environment["TERM"] ?? ""
        let obeys = terminal != "dumb" && !terminal.isEmpty
        let likesColour = (environment["NO_COLOR"] ?? "").isEmpty
        isLive = obeys && isatty(people) == 1 && !style.isQuiet && style.showsBars
        complaintsAreLive = obeys && isatty(STDERR_FILENO) == 1
        usesColour = style.colour ?? (obeys && isatty(people) == 1 && likesColour)
        complaintsUseColour = style.colour ?? (complaintsAreLive && likesColour)
        showsProgress = isLive || style.printsProgress
        printsProgress = !isLive && style.printsProgress
        Self.current.withLock { $0 = self }
    }

    /// What the user wants to see, and how.
    struct Style {
        /// Whether programs read standard output.
        var machineReadsOutput = false
        var isQuiet = false
        /// Whether there are changing lines on a terminal.
        var showsBars = true
        /// Whether progress is printed as lines, where there are no bars.
        var printsProgress = false
        /// Whether there is colour; nil for where it can be.
        var colour: Bool?
    }

    /// A display as the options want it.
    ///
    /// - Parameter printsBodies: whether standard output gets the body of a response.
    convenience init(_ options: Options, printsBodies: Bool) throws(ToolError) {
        var style = Style()
        style.machineReadsOutput = options.has("json") || printsBodies
        style.isQuiet = options.has("quiet")
        if options.has("json"), printsBodies { throw options.usage("--json and --output - both need standard output") }
        switch try options.choice("color") {
        case "always": style.colour = true
        case "never": style.colour = false
        default: break
        }
        switch try options.choice("progress") {
        case "none": style.showsBars = false
        case "plain": (style.showsBars, style.printsProgress) = (false, true)
        default: break
        }
        self.init(style)
    }

    /// Whether the locale uses UTF-8.
    static let hasUnicode: Bool = {
        let environment = ProcessInfo.processInfo.environment
        let names = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }
        let language = (names.first { !$0.isEmpty } ?? "").lowercased()
        return language.contains("utf-8") || language.contains("utf8")
    }()

    // MARK: Permanent lines

    /// Writes a line for people, unless they want none; on standard error once standard output has failed.
    func say(_ line: String) {
        guard !isQuiet else { return }
        write(line, to: Self.failed.withLock { $0.contains(people) } ? STDERR_FILENO : people)
    }

    /// Writes an error message on standard error.
    ///
    /// - Parameter isMarked: whether to mark it, as it appears among lines about successes.
    func complain(_ line: String, isMarked: Bool = false) {
        let mark = isMarked && complaintsAreLive ? (Self.hasUnicode ? "✗ " : "x ") : ""
        write("convoy: \(complaintsUseColour ? Self.painted(mark, .red) : mark)\(line)", to: STDERR_FILENO)
    }

    /// Writes a line of a trace on standard error.
    func remark(_ line: String) { write(line, to: STDERR_FILENO) }

    /// Writes a line for programs, on standard output.
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

    /// Changes the screen. If writing to standard output fails, this is reported on standard error, and the transfers
    /// are cancelled. A failure of standard error cannot be reported.
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

    // MARK: Changing lines

    /// Shows these changing lines below all others, in place of the previous ones. Does nothing if there can be none.
    func show(_ lines: [String]) {
        guard isLive else { return }
        change { screen in
            guard !lines.isEmpty || screen.drawn > 0 else { return }
            erase(&screen, keepingText: true)
            screen.live = lines
            draw(&screen)
        }
    }

    /// Removes the changing lines, and shows the cursor again.
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
        // Line wrap is turned off: a wrapped line would be two, and the count wrong.
        text += "\u{1B}[?7l"
        for line in screen.live { text += line + "\u{1B}[K\n" }
        text += "\u{1B}[?7h\u{1B}[J"
        put(text, to: people, &screen)
        screen.drawn = screen.live.count
    }

    // MARK: The terminal

    /// Columns and rows; 80 and 24 if there is no terminal.
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

    // MARK: Signals

    /// The display that is in use.
    private static let current = Mutex<Display?>(nil)

    /// How signals restore and redraw the terminal.
    static let terminal = Interruption.Terminal(
        giveBack: {
            current.withLock { $0 }?.changeSoon { display, screen in
                screen.isAway = true
                if StandardStreams.hasRoom(display.people) { display.giveBack(&screen) }
            }
        },
        takeAgain: { current.withLock { $0 }?.changeSoon { $1.isAway = false } },
        // What was drawn is still there, but with other text below it.
        drawAnew: { current.withLock { $0 }?.changeSoon { ($1.drawn, $1.isCursorHidden) = (0, false) } })

    /// Changes the screen, unless another thread keeps writing: its output may have no reader, and a signal must not
    /// wait for that.
    private func changeSoon(_ body: (Display, inout Screen) -> Void) {
        for _ in 0..<100 {
            if screen.withLockIfAvailable({ body(self, &$0) }) != nil { return }
            usleep(1000)
        }
    }
}
