import Foundation

/// `convoy demo`: shows what the engine does, and checks the results.
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
        display.say("A server inside this program listens on \(server.url.absoluteString).")

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
            display.complain("a check of the demo failed")
            return .failure
        }
        display.say("All checks passed, in \(time).")
        return .success
    }
}
