import Foundation

/// `convoy demo`: demonstrates the engine and checks the results.
enum DemoCommand {
    static func run(_ options: Options, _ display: Display) throws -> ExitStatus {
        guard options.arguments.isEmpty else { throw options.usage("demo takes no arguments") }
        // A proxy from the environment could not reach the server inside this program.
        setenv("no_proxy", "127.0.0.1", 1)
        let server: DemoServer
        do {
            server = try DemoServer()
        } catch {
            throw ToolError.failure("the demo's server cannot start: \(ErrorText.line(for: error))")
        }
        defer { server.server.stop() }
        let begun = ContinuousClock.now
        display.say("A built-in server listens on \(server.url.absoluteString).")

        let parts = [ChainDemo.run, BatchDemo.run, PauseDemo.run]
        var isRight = true
        for part in parts where Interruption.shared.status == nil {
            display.say("")
            // Each part runs even if an earlier one failed, so that one failure does not hide another.
            if !part(server, DemoStage(display: display)) { isRight = false }
        }
        if let status = Interruption.shared.status { return status }
        display.say("")
        let time = Amounts.seconds((ContinuousClock.now - begun).seconds)
        guard isRight else {
            display.complain("a check failed")
            return .failure
        }
        display.say("All checks passed, in \(time).")
        return .success
    }
}

/// The output of one part of the demo.
struct DemoStage: Sendable {
    let display: Display
    private let begun = ContinuousClock.now

    init(display: Display) { self.display = display }

    /// The number of seconds after which a part counts as hung.
    static let patience = 6.0

    func title(_ text: String) { display.say(display.paint(text, .bold)) }

    /// Prints a step, with the time since the part began.
    func step(_ text: String) { display.say("  \(time)  \(text)") }

    /// Prints a continuation of the previous line.
    func note(_ text: String) { display.say("               \(text)") }

    /// Prints a check with its result, and returns the result.
    func check(_ text: String, _ isRight: Bool) -> Bool {
        let (yes, no) = Display.hasUnicode ? ("✓", "✗") : ("ok", "WRONG")
        display.say("  \(time)  \(isRight ? display.paint(yes, .green) : display.paint(no, .red)) \(text)")
        return isRight
    }

    /// Shows a progress bar that replaces the previous one. Does nothing without a terminal.
    func bar(_ name: String, _ fraction: Double, _ text: String) {
        guard display.isLive else { return }
        let width = min(40, max(10, display.size.columns - 40))
        display.show(["  \(time)  \(name) \(ProgressBar.bar(fraction, width: width, display: display)) \(text)"])
    }

    private var time: String {
        let text = String(format: "%6.3f s", (ContinuousClock.now - begun).seconds)
        return display.paint(text, .dim)
    }
}
