import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies

/// Two processes with eight threads each that share one cookie file.
///
/// `CONVOY_STORE_SECONDS` sets the duration. Run it with `swift test --sanitize=thread` as well.
@Suite struct CookieChurnTests {
    @Test("two processes with eight threads each set, read and remove cookies without wrong reads or lost updates")
    func churn() async throws {
        let seconds = ProcessInfo.processInfo.environment["CONVOY_STORE_SECONDS"].flatMap { Double($0) } ?? 1.5
        let directory = try TemporaryDirectory(prefix: "convoy-cookies")
        let file = directory.file("cookies.db")
        let program = try CookieFileTests.program()
        let processes = try ["p", "q"].map { prefix in
            try ChildProcess(
                program, ["cookies", file.path, "churn", prefix, "\(seconds)", "8"], directory: directory.url,
                log: directory.file("\(prefix).log"))
        }
        try await waitUntil(timeout: seconds + 120, "the end of the processes") { processes.allSatisfy { !$0.isRunning } }
        var expected: Set<String> = []
        for process in processes {
            #expect(process.exitStatus == 0, "\(process.output)")
            let lines = process.output.split(separator: "\n").map(String.init)
            let words = try #require(lines.first).split(separator: " ")
            // The test is meaningful only if the process has read often enough.
            #expect(words.first == "0" && Int(words[2]) ?? 0 > 10, "\(lines.first ?? "")")
            expected.formUnion(lines.dropFirst())
        }
        let store = try CookieStore(file: file)
        #expect(Set(store.cookies.map { "\($0.domain) \($0.name)=\($0.value)" }) == expected)
        let check = try ProcessRunner.run("sqlite3", [file.path, "PRAGMA integrity_check"])
        #expect(check.text == "ok\n", "\(check.errorText)")
    }
}
