import Convoy
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations
@testable import ConvoyTool

/// The source address of `convoy get`, the policies it stores about servers, and its minimum rate.
@Suite(.serialized) struct GetWayTests {
    let bench: Workbench

    init() throws { bench = try Workbench() }

    @Test func `--interface sets the source address of connections`() async throws {
        bench.server.route("/x", .text("x"))
        #expect(try await bench.get("--interface", "127.0.0.1", bench.url("/x")).status == 0)
        // The sources are a different address family, an address of another machine, and a missing interface.
        for place in ["::1", "192.0.2.1", "no-such-if0"] {
            let result = try await bench.get("-f", "--retry", "0", "--interface", place, bench.url("/x"))
            #expect(result.status == 4, "\(place): \(result.errors)")
        }
        #expect(try await bench.get("--interface", "", bench.url("/x")).status == 2)
        #expect(bench.server.requests.count == 1)
    }

    @Test func `--hsts stores a server's HSTS policy and applies it to later runs`() async throws {
        let ground = try TrustGround()
        ground.server.route("/file", .text("hello").header("Strict-Transport-Security", "max-age=600"))
        let root = ground.files.url.appendingPathComponent("root.pem").path
        let secure = "https://localhost:\(ground.server.port)/file"
        let options = ["--hsts", "known", "--cacert", root]
        let first = try await ToolProcess.run(["get"] + options + [secure], in: bench.scratch.url)
        #expect(first.status == 0, "\(first.errors)")
        #expect(try bench.scratch.text("known").contains("localhost"))
        let plain = secure.replacing("https://", with: "http://")
        let second = try await ToolProcess.run(["get", "-f"] + options + [plain], in: bench.scratch.url)
        #expect(second.status == 0, "\(second.errors)")
        #expect(try bench.scratch.text("file") == "hello")
        let without = try await ToolProcess.run(["get", "-f", "--retry", "0", plain], in: bench.scratch.url)
        #expect(without.status == 4)
        try bench.scratch.write("no such file\n", to: "damaged")
        #expect(try await bench.get("--hsts", "damaged", bench.url("/x")).status == 2)
        #expect(try bench.scratch.text("damaged") == "no such file\n")
    }

    @Test func `an invalid --min-rate is rejected`() async throws {
        for rate in ["0", "-1", "x", ""] {
            #expect(try await bench.get("--min-rate", rate, bench.url("/x")).status == 2, "\(rate)")
        }
        bench.server.route("/x", .text("x"))
        #expect(try await bench.get("--min-rate", "1k", bench.url("/x")).status == 0)
        var configuration = ConnectionConfiguration()
        try SpeedOptions(Options(["--min-rate", "2k"], command: .get)).apply(to: &configuration)
        #expect(configuration.stallLimit == StallLimit(bytesPerSecond: 2000, duration: 30))
    }

    @Test func `transfers share their settings, but not a limit of each`() throws {
        let url = bench.server.url("/x")
        let display = try Display(Options([], command: .get), printsBodies: false)
        func limits(_ arguments: String...) throws -> (each: [RateLimit], all: [RateLimit], areShared: Bool) {
            let settings = try TransferSettings(Options(arguments, command: .get), for: url, display)
            let operations = try (1...2).map { number in
                let download = DownloadOperation(request: URLRequest(url: url))
                let transfer = Transfer(
                    name: "x", item: DownloadItem(urls: [url], text: url.absoluteString), download: download)
                try settings.apply(to: transfer, number: number)
                #expect(download.completionQueue === settings.completionQueue)
                #expect(download.completionGroup === settings.completionGroup)
                return download
            }
            return (
                operations.flatMap(\.connectionConfiguration.receiveRateLimits), operations.compactMap(\.receiveRateLimit),
                operations[0].settings.prepared === operations[1].settings.prepared
            )
        }
        #expect(try limits().areShared)
        let each = try limits("--limit-rate-each", "1k")
        #expect(!each.areShared && each.each.count == 2 && each.each[0] !== each.each[1] && each.all.isEmpty)
        let all = try limits("--limit-rate", "1k")
        #expect(all.areShared && all.all.count == 2 && all.all[0] === all.all[1] && all.each.isEmpty)
    }

    @Test func `a refused connection is retried only with --retry`() async throws {
        let url = "http://127.0.0.1:\(try LoopbackPort.free())/x"
        let plain = try await bench.get(url)
        #expect(plain.status == 4 && plain.output.isEmpty, "\(plain.output)")
        let patient = try await bench.get("--retry", "2", url)
        #expect(patient.status == 4)
        #expect(patient.outputLines.filter { $0.contains("retrying in") }.count == 2, "\(patient.output)")
    }
}
