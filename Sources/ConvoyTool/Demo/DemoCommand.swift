import Foundation

/// `convoy demo`: shows what the engine does, and checks that it did it right.
enum DemoCommand {
    static let help = """
        convoy demo: show a chain, a batch and a paused download

        Usage: convoy demo

        It needs no network: it talks to a server inside the program. It takes a few seconds.

        Options:
          -h, --help  print this help

        Exit status: 0 all of it was right, 1 something was not, 2 wrong usage, 130 ended by Ctrl-C.
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
