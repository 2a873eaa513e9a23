import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

/// Sends requests of every kind for a long time, and checks that memory, descriptors and threads do not grow and that
/// each operation ends once.
///
/// `CONVOY_SOAK` is the number of requests (4,000 by default). `Tests/long soak` sends ten million.
@Suite(.enabled(if: Nginx.isInstalled, "soak: not installed: \(Nginx.installHint)")) struct SoakTests {
    private struct Line {
        let begun: Int, ended: Int, twice: Int, resident: Int, descriptors: Int, threads: Int

        /// Parses "5 begun 5 ended 0 twice 20000 KiB 20 descriptors 12 threads".
        init?(_ text: Substring) {
            let numbers = text.split(separator: " ").compactMap { Int($0) }
            guard numbers.count == 6 else { return nil }
            (begun, ended, twice) = (numbers[0], numbers[1], numbers[2])
            (resident, descriptors, threads) = (numbers[3], numbers[4], numbers[5])
        }
    }

    @Test func `resource use does not grow with the number of requests, and each operation ends once`() throws {
        let server = try TestServer(.withoutRecording)
        server.route("GET", "/broken", .text("x").resetBeforeHead())
        server.route("GET", "/busy", .status(503))
        server.route("GET", "/cookies") { _ in .text("x").header("Set-Cookie", "a=b; Max-Age=60") }
        server.route("GET", "/token") { $0.headers["Authorization"] == nil ? .status(401) : .text("x") }
        server.route("GET", "/long", .pattern(count: 300_000).header("ETag", "\"1\""))
        for number in 0..<7 {
            server.route("GET", "/cached/\(number)") { _ in
                .pattern(count: 3000).header("Cache-Control", "max-age=\(number % 2)")
            }
        }
        let nginx = try Nginx(forwardingTo: server.port)
        let directory = try TemporaryDirectory(prefix: "convoy-soak")
        let count = ProcessInfo.processInfo.environment["CONVOY_SOAK"].flatMap { Int($0) } ?? 4000
        let result = try ProcessRunner.run(
            Torture.program,
            [
                "soak", nginx.url.absoluteString, nginx.secureURL.absoluteString, nginx.certificateAuthority.path,
                directory.url.path, "\(count)",
            ],
            environment: Torture.findsLeaks ? LeakTests.environment : [:],
            timeout: max(120, Double(count) / 500))
        print("soak: \(count) requests\n\(result.text)")
        let lines = result.text.split(separator: "\n").compactMap(Line.init)
        try #require(lines.count == 10, "status \(result.status): \(result.errorText)")
        let first = lines[0], last = lines[9]
        #expect(last.begun == last.ended && last.twice == 0)
        #expect(result.status == 0, "\(result.errorText.suffix(8_000))")
        #expect(last.begun > count / 2)
        // libcurl and OpenSSL keep the memory of their peak load, which a short run may not reach until its end.
        let isLong = count >= 1_000_000
        #expect(last.resident - first.resident < (isLong ? 4096 : 65_536))
        guard isLong else { return }
        // These numbers fluctuate, but with a leak per request they would never return to their initial range.
        for count in [\Line.descriptors, \.threads] {
            let (earlier, later) = (lines[..<5].map { $0[keyPath: count] }, lines[5...].map { $0[keyPath: count] })
            #expect(later.min() ?? .max <= earlier.max() ?? 0, "\(earlier) \(later)")
        }
    }
}

extension TestServer.Configuration {
    /// A configuration that records no requests.
    fileprivate static var withoutRecording: Self {
        var configuration = Self()
        configuration.recordingLimit = 0
        return configuration
    }
}
