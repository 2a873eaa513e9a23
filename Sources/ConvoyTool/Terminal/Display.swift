import ConvoySupport
import Foundation

/// The output of the program: lines for people, lines for programs, and, on a terminal, a few changing lines at the bottom.
///
/// To write a permanent line, the changing lines are erased and redrawn below it in the same write.
final class Display: Sendable {
    private struct Screen {
        var changing = ChangingLines()
        /// The closure to call when the window size has changed.
        var resizeHandler: (@Sendable () -> Void)?
        /// Whether the program is being stopped, so that it must not use the terminal.
        var isAway = false
        /// The first write failure of a descriptor that has not been reported yet.
        var failure: (descriptor: Int32, error: SystemError)?
    }

    /// The descriptor for lines for people: standard output, or standard error if programs read standard output.
    private let people: Int32
    private let isQuiet: Bool
    /// Whether the display can show changing lines.
    let isLive: Bool
    /// Whether the progress of transfers is shown.
    let showsProgress: Bool
    /// Whether progress is printed as lines.
    let printsProgress: Bool
    /// Whether lines about single transfers begin with a mark: on a terminal, or with colour.
    let showsMarks: Bool
    private let usesColour: Bool
    /// Whether error messages are marked.
    private let marksComplaints: Bool
    private let complaintsUseColour: Bool
    /// The descriptors of standard output and standard error that are terminals.
    let terminals: Set<Int32>
    private let screen = Locked(Screen())

    init(_ style: Style = Style()) {
        people = style.machineReadsOutput ? STDERR_FILENO : STDOUT_FILENO
        isQuiet = style.isQuiet
        let environment = ProcessInfo.processInfo.environment
        let terminal = environment["TERM"] ?? ""
        let obeys = terminal != "dumb" && !terminal.isEmpty
        let likesColour = (environment["NO_COLOR"] ?? "").isEmpty
        let terminals = Set([STDOUT_FILENO, STDERR_FILENO].filter { isatty($0) == 1 })
        let isTerminal = obeys && terminals.contains(people)
        let complaintsAreSeen = obeys && terminals.contains(STDERR_FILENO)
        // A body that is printed on the same terminal would be mixed with the changing lines.
        let isFree = !style.printsBodies || !terminals.contains(STDOUT_FILENO)
        isLive = isTerminal && isFree && !style.isQuiet && style.showsBars
        usesColour = style.colour ?? (isTerminal && likesColour)
        complaintsUseColour = style.colour ?? (complaintsAreSeen && likesColour)
        showsMarks = isTerminal || style.colour == true
        marksComplaints = complaintsAreSeen || style.colour == true
        self.terminals = terminals
        showsProgress = isLive || style.printsProgress
        printsProgress = !isLive && style.printsProgress
        Self.current.withLock { $0 = self }
    }

    /// The appearance of the output.
    struct Style {
        /// Whether programs read standard output.
        var machineReadsOutput = false
        /// Whether the body of a response is written to standard output.
        var printsBodies = false
        var isQuiet = false
        /// Whether changing lines are shown on a terminal.
        var showsBars = true
        /// Whether progress is printed as lines if no bars are shown.
        var printsProgress = false
        /// Whether output is in colour, or nil to decide automatically.
        var colour: Bool?
    }

    /// Whether the locale uses UTF-8.
    static let hasUnicode: Bool = {
        let environment = ProcessInfo.processInfo.environment
        let names = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }
        let language = (names.first { !$0.isEmpty } ?? "").lowercased()
        return language.contains("utf-8") || language.contains("utf8")
    }()

    // MARK: Permanent lines

    /// Writes a line for people, unless the output is quiet. Uses standard error after a failure of standard output.
    func say(_ line: @autoclosure () -> String) {
        guard !isQuiet else { return }
        write(line(), to: Self.failed.withLock { $0.contains(people) } ? STDERR_FILENO : people)
    }

    /// Writes an error message to standard error.
    ///
    /// - Parameter isMarked: Whether to mark the message, because it appears among lines about successes.
    func complain(_ line: String, isMarked: Bool = false) {
        let mark = isMarked && marksComplaints ? (Self.hasUnicode ? "✗ " : "x ") : ""
        write("convoy: \(complaintsUseColour ? Self.painted(mark, .red) : mark)\(line)", to: STDERR_FILENO)
    }

    /// Writes a trace line to standard error.
    func remark(_ line: String) {
        let isHeld = heldRemarks.withLock { held in
            held?.append(line)
            return held != nil
        }
        if !isHeld { write(line, to: STDERR_FILENO) }
    }

    /// Holds trace lines back until all secrets that must be masked in them are known.
    func holdRemarks() { heldRemarks.withLock { $0 = $0 ?? [] } }

    /// Writes the trace lines that were held back, and stops holding them.
    func releaseRemarks() {
        let held = heldRemarks.withLock { held in held.take() }
        for line in held ?? [] { write(line, to: STDERR_FILENO) }
    }

    private let heldRemarks = Locked<[String]?>(nil)

    /// Writes a line for programs to standard output.
    func emit(_ line: String) { write(line, to: STDOUT_FILENO, isFiltered: false) }

    /// A closure that masks secrets in lines for people. The command sets it, because only the command can identify
    /// these secrets. Lines for programs never contain them.
    static let filter = Locked<(@Sendable (String) -> String)?>(nil)

    /// A closure that masks the same secrets in a JSON file.
    static let archiveFilter = Locked<(@Sendable (Data) -> Data)?>(nil)

    private func write(_ text: String, to descriptor: Int32, isFiltered: Bool = true) {
        let masked = isFiltered ? Self.filter.withLock { $0 }?(text) ?? text : text
        let isSafe = Self.hasUnicode || !terminals.contains(descriptor) || masked.utf8.allSatisfy { $0 < 0x80 }
        let line = (isSafe ? masked : Printable.ascii(masked)) + "\n"
        change { screen in
            guard terminals.contains(descriptor) else { return put(line, to: descriptor, &screen) }
            let erasing = screen.changing.erase()
            let drawing = screen.isAway || !isInForeground ? "" : screen.changing.draw()
            if descriptor == people { return put(erasing + line + drawing, to: people, &screen) }
            put(erasing, to: people, &screen)
            put(line, to: descriptor, &screen)
            put(drawing, to: people, &screen)
        }
    }

    // MARK: Failures

    private static let failed = Locked<Set<Int32>>([])

    /// Whether a write has failed.
    static var hasFailed: Bool { failed.withLock { !$0.isEmpty } }

    /// Changes the screen. If a write to standard output fails, reports the failure on standard error and cancels the
    /// transfers, or ends the program if there are none. A failure of standard error cannot be reported.
    private func change(_ body: (inout Screen) -> Void) {
        let failure = screen.withLock { screen in
            body(&screen)
            return screen.failure.take()
        }
        guard let (descriptor, error) = failure else { return }
        let isFirst = Self.failed.withLock { $0.insert(descriptor).inserted }
        guard isFirst, descriptor == STDOUT_FILENO else { return }
        complain("cannot write to standard output: \(error.text)")
        if !Interruption.shared.trigger(.failure) { ExitStatus.failure.end() }
    }

    private func put(_ text: String, to descriptor: Int32, _ screen: inout Screen) {
        guard !text.isEmpty else { return }
        do throws(SystemError) {
            try StandardStreams.write(text, to: descriptor)
        } catch {
            if screen.failure == nil { screen.failure = (descriptor, error) }
        }
    }

    // MARK: Changing lines

    /// Shows changing lines below all others, replacing the previous ones. Does nothing if changing lines are not possible.
    ///
    /// - Parameter waits: Whether to draw the lines with the next change, because a permanent line is about to follow.
    func show(_ lines: [String], waits: Bool = false) {
        guard isLive else { return }
        change { screen in
            screen.changing.lines = lines
            guard !waits, !screen.isAway, isInForeground else { return }
            put(screen.changing.draw(), to: people, &screen)
        }
    }

    /// Removes the changing lines and shows the cursor again.
    func clear() {
        guard isLive else { return }
        change { screen in
            screen.changing.lines = []
            put(screen.changing.giveBack(), to: people, &screen)
        }
    }

    /// Sets the closure to call when the window size has changed, or nil. It is called on the thread that handles signals
    /// and must not block.
    func onResize(_ handler: (@Sendable () -> Void)?) { screen.withLock { $0.resizeHandler = handler } }

    // MARK: The terminal

    /// The size in columns and rows, or 80 × 24 without a terminal.
    var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(people, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether the program is in the foreground of the terminal. In the background it must not overwrite what the user types
    /// into the shell.
    private var isInForeground: Bool {
        let group = tcgetpgrp(people)
        // The group is unknown if the terminal does not control the program.
        return group < 0 || group == getpgrp()
    }

    enum Colour: Int {
        case red = 31
        case green = 32
        case yellow = 33
        case cyan = 36
        case bold = 1
        case dim = 2
    }

    /// Whether ``paint(_:_:)`` adds colors.
    var isColoured: Bool { usesColour }

    func paint(_ text: String, _ colour: Colour) -> String { usesColour ? Self.painted(text, colour) : text }

    private static func painted(_ text: String, _ colour: Colour) -> String {
        text.isEmpty ? "" : "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m"
    }

    // MARK: Signals

    /// The display in use.
    private static let current = Locked<Display?>(nil)

    /// The closures with which signals restore and redraw the terminal.
    static let terminal = Interruption.Terminal(
        giveBack: {
            current.withLock { $0 }?.changeSoon { display, screen in
                screen.isAway = true
                guard StandardStreams.hasRoom(display.people) else { return }
                display.put(screen.changing.giveBack(), to: display.people, &screen)
            }
        },
        takeAgain: {
            current.withLock { $0 }?.changeSoon { display, screen in
                screen.isAway = false
                display.drawIfPossible(&screen)
            }
        },
        // The drawn lines are still on the screen, but with other text below them.
        drawAnew: {
            current.withLock { $0 }?.changeSoon { display, screen in
                screen.changing.forget()
                display.drawIfPossible(&screen)
            }
        },
        resized: {
            guard let display = current.withLock({ $0 }) else { return }
            let handler = display.changeSoon { _, screen in
                screen.changing.reflow()
                return screen.resizeHandler
            }
            handler??()
        })

    private func drawIfPossible(_ screen: inout Screen) {
        guard !screen.isAway, isInForeground, StandardStreams.hasRoom(people) else { return }
        put(screen.changing.draw(), to: people, &screen)
    }

    /// Changes the screen, unless another thread is still writing. The output of that thread may be blocked, and signal
    /// handling must not wait for it.
    ///
    /// - Returns: The result of the closure, or nil if it was not called.
    @discardableResult
    private func changeSoon<Result: Sendable>(_ body: (Display, inout Screen) -> Result) -> Result? {
        for _ in 0..<100 {
            if let result = screen.withLockIfAvailable({ body(self, &$0) }) { return result }
            usleep(1000)
        }
        return nil
    }
}
