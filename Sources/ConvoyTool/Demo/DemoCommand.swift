import Foundation

/// `convoy demo`: shows what the engine does, and checks that it did it right.
enum DemoCommand {
    static let help = """
        convoy demo: show a chain, a batch and a paused download

        Usage: convoy demo

        It needs no network: it talks to a server inside the program. It takes a few seconds.

        Options:
          -h, --help  print this help

        Exit status: 0 all of it was right, 1 something was not, 2 wrong usage, 130 interrupted.
        """

    static func run(_ arguments: [String], _ display: Display) throws -> ExitStatus {
        let options = try Options(arguments, command: "demo", known: [])
        guard !options.has("help") else {
            display.say(help)
            return .success
        }
        guard options.arguments.isEmpty else { throw options.usage("demo takes no arguments") }
        // A proxy that the environment names has no way to a server inside this program.
        setenv("no_proxy", "127.0.0.1", 1)
        let server: DemoServer
        do {
            server = try DemoServer()
        } catch {
            throw ToolError.failure("the demo's server cannot start: \(ErrorText.line(for: error))")
        }
        defer { server.server.stop() }
        let begun = ContinuousClock.now
        display.say("A server inside this program listens on \(server.server.url.absoluteString).")

        let parts = [ChainDemo.run, BatchDemo.run, PauseDemo.run]
        var isRight = true
        for part in parts where Interruption.shared.status == nil {
            display.say("")
            // Each part is run, also when one before it went wrong: one failure should not hide another.
            if !part(server, DemoStage(display: display)) { isRight = false }
        }
        if let status = Interruption.shared.status { return status }
        display.say("")
        let time = Amounts.seconds((ContinuousClock.now - begun).seconds)
        guard isRight else {
            display.complain("the demo went wrong")
            return .failure
        }
        display.say("All of it was right, in \(time).")
        return .success
    }
}

/// How the parts of the demo show what happens.
struct DemoStage: Sendable {
    let display: Display
    private let begun = ContinuousClock.now

    init(display: Display) { self.display = display }

    /// How long a part may take before it counts as hung, in seconds.
    static let patience = 6.0

    func title(_ text: String) { display.say(display.paint(text, .bold)) }

    /// A step, with the time since the part began.
    func step(_ text: String) { display.say("  \(time)  \(text)") }

    /// More about the line before.
    func note(_ text: String) { display.say("               \(text)") }

    /// A claim, and whether it holds. Returns that.
    func check(_ text: String, _ isRight: Bool) -> Bool {
        let (yes, no) = Display.hasUnicode ? ("✓", "✗") : ("ok", "WRONG")
        display.say("  \(time)  \(isRight ? display.paint(yes, .green) : display.paint(no, .red)) \(text)")
        return isRight
    }

    /// A bar in the place of the one before; only on a terminal.
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
