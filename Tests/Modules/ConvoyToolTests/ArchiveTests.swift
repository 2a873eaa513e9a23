import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Tests of `--har`, which records all requests of a run, and of the waits that `--verbose` reports.
@Suite struct ArchiveTests {
    let bench: Workbench

    init() throws { bench = try Workbench() }

    private struct Archive: Decodable {
        struct Log: Decodable {
            let version: String
            let pages: [Page]
            let entries: [Entry]
        }
        struct Page: Decodable { let id: String }
        struct Entry: Decodable {
            let pageref: String
            let request: Request
            let response: Response
        }
        struct Request: Decodable { let url: String }
        struct Response: Decodable {
            let status: Int
            let bodySize: Int
        }
        let log: Log
    }

    private func archive(_ name: String = "out.har") throws -> Archive.Log {
        try JSONDecoder().decode(Archive.self, from: bench.scratch.data(name)).log
    }

    @Test func `the archive contains all requests, including failed ones`() async throws {
        _ = bench.serve(5000, at: "/a")
        bench.server.route("/moved", .redirect(to: "/a"))
        let result = try await bench.get(
            "--har", "out.har", "--retry", "0", bench.url("/a"), bench.url("/moved?token=hidden"), bench.url("/none"))
        #expect(result.status == 7, "\(result.errors)")
        let log = try archive()
        #expect(log.version == "1.2" && log.pages.count == 3)
        #expect(log.entries.map(\.response.status).sorted() == [200, 200, 302, 404])
    }

    @Test func `a redirect is recorded as a separate entry with its secrets masked`() async throws {
        _ = bench.serve(5000, at: "/a")
        bench.server.route("/moved", .redirect(to: "/a"))
        #expect(try await bench.get("--har", "out.har", "-o", "b", bench.url("/moved?token=hidden")).status == 0)
        let log = try archive()
        #expect(log.entries.map(\.response.status) == [302, 200])
        #expect(log.entries.map(\.response.bodySize).last == 5000)
        #expect(Set(log.entries.map(\.pageref)) == Set(log.pages.map(\.id)) && log.pages.count == 1)
        #expect(log.entries.first?.request.url.hasSuffix("/moved?token=***") == true)
    }

    @Test func `an interrupted run still writes the archive and replaces an older one`() async throws {
        try Data("old".utf8).write(to: bench.scratch.url.appendingPathComponent("out.har"))
        let gate = TestServer.Gate()
        bench.server.route("/held", .pattern(count: 100_000).heldBody(by: gate, afterBytes: 50_000))
        let result = try await bench.get("--har", "out.har", "--max-time", "1", "--retry", "0", bench.url("/held"))
        gate.open()
        #expect(result.status == 6, "\(result.errors)")
        #expect(try archive().entries.map(\.response.status) == [200])
    }

    @Test func `an archive path that is not writable is reported before anything is sent`() async throws {
        _ = bench.serve(10, at: "/a")
        for (place, status) in [("none/out.har", 8), ("", 2)] {
            let result = try await bench.get("--har", place, bench.url("/a"))
            #expect(result.status == status && result.errors.contains("--har"), "\(result.errors)")
        }
        try FileManager.default.createDirectory(
            at: bench.scratch.url.appendingPathComponent("folder.har"), withIntermediateDirectories: true)
        let result = try await bench.get("--har", "folder.har", bench.url("/a"))
        #expect(result.status == 8, "\(result.errors)")
        #expect(result.errors.contains("--har: cannot write folder.har: Is a directory"), "\(result.errors)")
        #expect(bench.server.requests.isEmpty)
    }

    @Test func `--verbose reports what a transfer is waiting for`() async throws {
        let count = Locked(0)
        bench.server.route("/late") { _ in
            let isFirst = count.withLock { count in
                count += 1
                return count == 1
            }
            return isFirst ? .status(500) : .text("late")
        }
        let result = try await bench.get("-v", "--retry", "1", bench.url("/late"))
        #expect(result.status == 0)
        #expect(result.errors.contains("* waiting to retry\n") && result.errors.contains("* attempt 2\n"))
    }
}
