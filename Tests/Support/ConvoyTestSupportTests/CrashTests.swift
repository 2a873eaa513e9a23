import ConvoyTestSupport
import Foundation
import Testing

struct CrashTests {
    @Test func `a child process and its group end when the parent is killed`() async throws {
        let directory = try TemporaryDirectory()
        // The body runs in a separate process, which can only read the environment.
        setenv("CONVOY_CRASH_TEST", directory.url.path, 1)
        await #expect(processExitsWith: .signal(SIGKILL)) {
            let directory = URL(fileURLWithPath: String(cString: try #require(getenv("CONVOY_CRASH_TEST"))))
            let child = try ChildProcess(
                "sh", ["-c", "sleep 100 & echo $$ $!; wait"], directory: directory,
                log: directory.appendingPathComponent("log"))
            try eventually { child.output.hasSuffix("\n") }
            kill(getpid(), SIGKILL)
        }
        let text = try String(contentsOf: directory.file("log"), encoding: .utf8)
        let numbers = text.split { $0 == " " || $0 == "\n" }.compactMap { Int32($0) }
        #expect(numbers.count == 2)
        try eventually("the processes \(numbers) to end") { numbers.allSatisfy { kill($0, 0) != 0 } }
    }
}
