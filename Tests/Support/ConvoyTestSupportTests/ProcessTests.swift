import ConvoyTestSupport
import Foundation
import Testing

struct ProcessTests {
    @Test func `a program receives arguments, input, environment and directory, and returns its output`()
        throws
    {
        let directory = try TemporaryDirectory()
        let result = try ProcessRunner.run(
            "sh", ["-c", "cat; echo \"$1 $X\"; pwd; echo bad >&2; exit 3", "sh", "a b"], input: Data("in\n".utf8),
            environment: ["X": "y"], directory: directory.url)
        #expect(result.status == 3 && result.errorText == "bad\n" && !result.timedOut)
        #expect(result.text == "in\na b y\n\(directory.url.path)\n")
    }

    @Test func `large outputs and unread input do not deadlock`() throws {
        let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"
        let result = try ProcessRunner.run("sh", ["-c", script], input: Data(count: 5_000_000))
        #expect(result.output.count == 3_000_000 && result.errors.count == 3_000_000)
        let copied = try ProcessRunner.run("cat", input: Data(count: 5_000_000))
        #expect(copied.output.count == 5_000_000)
    }

    @Test func `a program that exceeds its timeout is killed with all its children`() throws {
        let start = Date()
        let result = try ProcessRunner.run("sh", ["-c", "sleep 100 & sleep 100"], timeout: 0.1)
        #expect(result.timedOut && result.status == 137)
        // The children take 100 seconds.
        #expect(Date().timeIntervalSince(start) < 80)
    }

    @Test func `a child that keeps the output open after its parent is not awaited`() throws {
        let start = Date()
        let result = try ProcessRunner.run("sh", ["-c", "echo done; sleep 50 & exit 0"])
        #expect(result.status == 0 && result.text == "done\n")
        // The child takes 50 seconds. Only real time shows whether it was awaited.
        #expect(Date().timeIntervalSince(start) < 40)
    }

    @Test func `the error names a missing program`() {
        #expect(throws: ProcessError.notInstalled("no-such-program")) { try ProcessRunner.run("no-such-program") }
    }

    @Test func `a stopped child and its group end even if they ignore SIGTERM`() throws {
        let directory = try TemporaryDirectory()
        let child = try ChildProcess(
            "sh", ["-c", "trap '' TERM; sleep 100 & echo $!; wait"], directory: directory.url, log: directory.file("log"))
        try eventually("the number of the grandchild") { child.output.hasSuffix("\n") }
        let grandchild = try #require(Int32(child.output.dropLast()))
        #expect(child.isRunning)
        child.stop(grace: 0.05)
        child.stop()
        #expect(child.exitStatus == 137)
        try eventually("the grandchild to end") { isGone(grandchild) }
    }

    private func isGone(_ process: pid_t) -> Bool {
        guard kill(process, 0) == 0 else { return true }
        let stat = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ""
        return stat.isEmpty || stat.contains(") Z ")
    }
}
