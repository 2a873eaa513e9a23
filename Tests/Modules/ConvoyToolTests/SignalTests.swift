import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Termination of the program by a signal, and the state in which it leaves the terminal.
@Suite(.serialized) struct SignalTests {
    let bench: Workbench

    init() throws {
        bench = try Workbench()
        bench.hold(count: 100_000, at: "/held", after: 50_000)
    }

    private var held: String { bench.url("/held") }

    /// Returns shell commands that stop a job once a file `go` exists, and continue it after it has stopped.
    private func stopped(by signal: String) -> String {
        """
        \(ToolProcess.shellWait(for: "[ -e go ]"))
        kill -\(signal) $pid
        \(ToolProcess.shellWait(for: "grep -q '^State:.T' /proc/$pid/status"))
        echo STOPPED
        kill -CONT $pid
        """
    }

    @Test func `Ctrl-C ends a shell loop`() async throws {
        bench.server.route("/quick", .text("x"))
        // The process group of the job receives the signal, like the foreground group of a terminal.
        let command = """
            set -m
            bash -c "for url in \(held) '\(bench.server.url("/quick"))'; do $convoy get \\$url; echo status \\$?; done" & pid=$!
            \(ToolProcess.shellWait(for: "[ -e held.convoypart ]"))
            kill -INT -- -$pid
            wait $pid
            echo "loop $?"
            """
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.outputLines.last == "loop 130", "\(result.output)")
        #expect(!result.output.contains("status"))
        #expect(bench.server.requests("/quick").isEmpty)
        #expect(bench.scratch.names.allSatisfy { $0.hasPrefix("held.convoy") })
    }

    @Test(.timeLimit(.minutes(1)), arguments: [SIGINT, SIGTERM])
    func `a signal ends a run that searches for a regular expression`(_ signal: Int32) async throws {
        bench.server.route("/text", .text(String(repeating: "a", count: 200_000)))
        try bench.scratch.write(
            """
            requests:
              a: {get: "\(bench.server.url("/text"))", capture: {x: "text:(.*)*c"}}
            """, to: "m.yaml")
        let tool = try ToolProcess(command: "exec $convoy run m.yaml", in: bench.scratch.url)
        try await waitUntil("a request") { !bench.server.requests("/text").isEmpty }
        tool.send(signal: signal)
        let result = try await tool.finished()
        #expect(result.status == -signal, "\(result.errors)")
    }

    @Test func `the exit status reflects the signal; an ignored signal stays ignored`() async throws {
        let command = """
            $convoy get \(held) & pid=$!
            \(ToolProcess.shellWait(for: "[ -e held.convoypart ]"))
            kill -TERM $pid
            wait $pid
            echo "status $?"
            """
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.outputLines.last == "status 143", "\(result.output)")

        let tool = try ToolProcess(command: "trap '' HUP; exec $convoy get \(held)", in: bench.scratch.url)
        try await bench.scratch.waitForFile("held.convoypart")
        tool.send(signal: SIGHUP)
        bench.gate.open()
        #expect(try await tool.finished().status == 0)
    }

    @Test func `a program whose output is not read can be suspended and interrupted`() async throws {
        bench.server.route("/*", .text("x"))
        // The output has more lines than fit into a pipe.
        let requests = (0..<200).map { #"{"id":"\#($0)","url":"\#(String(repeating: "x", count: 1000))"}"# }
        try bench.scratch.write(
            #"{"baseURL": "\#(bench.server.url.absoluteString)", "requests": [\#(requests.joined(separator: ","))]}"#,
            to: "m.json"
        )
        let interrupt = "for n in {1..500}; do kill -INT $pid 2>/dev/null || break; sleep 0.02; done"
        let command =
            "mkfifo pipe; exec 3<>pipe\n"
            + ToolProcess.shell(
                job: "$convoy run --json m.json >pipe", meanwhile: "\(stopped(by: "TSTP"))\n\(interrupt)")
        let tool = try ToolProcess(command: command, in: bench.scratch.url)
        _ = try await bench.server.waitForRequests(count: 100)
        try bench.scratch.write("", to: "go")
        let result = try await tool.finished()
        #expect(result.output.contains("STOPPED"))
        #expect(result.status == 130)
    }

    @Test(arguments: [SIGINT, SIGTERM])
    func `no escape sequences are written to a dumb terminal when a signal ends the program`(_ signal: Int32) async throws {
        let manifest = bench.scratch.url.appendingPathComponent("m.json").path
        try #require(mkfifo(manifest, 0o600) == 0)
        let command = """
            set -m
            TERM=dumb $convoy run m.json & pid=$!
            \(ToolProcess.shellWait(for: "[ -e go ]"))
            kill -\(signal) $pid
            wait $pid
            """
        let tool = try ToolProcess(command: command, in: bench.scratch.url, columns: 80)
        // Once the program is reading, there is nothing to cancel, and a signal ends it immediately.
        var writer: Int32 = -1
        try await waitUntil("convoy to read the manifest") {
            writer = open(manifest, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
            return writer >= 0
        }
        try bench.scratch.write("", to: "go")
        let result = try await tool.finished()
        close(writer)
        #expect(result.status == 128 + signal)
        #expect(!result.output.contains("\u{1B}"), "\(result.output.debugDescription)")

        bench.gate.open()
        let whole = try ToolProcess(command: "TERM=dumb $convoy get \(held)", in: bench.scratch.url, columns: 80)
        #expect(try await !whole.finished().output.contains("\u{1B}"))
    }
}
