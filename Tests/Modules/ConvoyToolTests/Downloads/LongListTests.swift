import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTool

/// Lists that are longer than the transfer window.
@Suite(.serialized) struct LongListTests {
    private func host(_ number: Int) throws -> Target { try #require(Target("http://h\(number).test/")) }

    // MARK: The window

    @Test func `each file starts once, in the order of its host, within the concurrency limits`() throws {
        for seed in 0..<200 {
            var random = SplitMix64(seed: UInt64(seed))
            let perHost = Int.random(in: 1...4, using: &random), size = Int.random(in: perHost...8, using: &random)
            var window = TransferWindow<Int>(size: size, sizePerHost: perHost, limit: Int.random(in: 1...20, using: &random))
            var rest = (0..<100).map { (number: $0, host: Int.random(in: 0..<5, using: &random)) }[...]
            let hosts = Dictionary(uniqueKeysWithValues: rest.map { ($0.number, $0.host) })
            var running: [(number: Int, counts: Bool)] = [], begun: [Int] = []
            while begun.count < 100 || !running.isEmpty {
                var moved = false
                if let (number, _) = window.next() {
                    running.append((number, true))
                    begun.append(number)
                    moved = true
                } else if window.wantsMore, let file = rest.popFirst() {
                    if window.admit(file.number, of: try host(file.host)) {
                        running.append((file.number, true))
                        begun.append(file.number)
                    }
                    moved = true
                }
                #expect(running.count { $0.counts } <= size && window.count == running.count { $0.counts })
                for number in 0..<5 { #expect(running.count { hosts[$0.number] == number } <= perHost) }
                if !running.isEmpty, Int.random(in: 0..<8, using: &random) == 0 || !moved {
                    let index = Int.random(in: running.indices, using: &random)
                    if running[index].counts, Bool.random(using: &random) {
                        running[index].counts = false
                        window.setBack()
                    } else {
                        let done = running.remove(at: index)
                        window.finish(of: try host(hosts[done.number] ?? 0), counted: done.counts)
                    }
                } else if !moved {
                    Issue.record("no transfer can start and none is running: seed \(seed)")
                    break
                }
            }
            #expect(begun.sorted() == Array(0..<100), "seed \(seed)")
            for number in 0..<5 {
                let own = begun.filter { hosts[$0] == number }
                #expect(own == own.sorted(), "seed \(seed)")
            }
            #expect(window.count == 0 && window.waitingCount == 0)
        }
    }

    @Test func `a host at its limit does not block other hosts`() throws {
        var window = TransferWindow<Int>(size: 8, sizePerHost: 2)
        for number in 0..<1000 { #expect(try window.admit(number, of: host(0)) == (number < 2)) }
        #expect(window.wantsMore && window.waitingCount == 998)
        for number in 0..<6 { #expect(try window.admit(number, of: host(1 + number))) }
        #expect(!window.wantsMore)
        // A transfer that waits to be retried makes room for others, but not for those of its own host.
        window.setBack()
        #expect(window.wantsMore && window.next() == nil)
        window.finish(of: try host(0), counted: false)
        #expect(window.next()?.item == 2)
    }

    // MARK: The tool

    @Test func `each file of a mixed list gets one output line and is counted once`()
        async throws
    {
        let bench = try Workbench()
        bench.server.route("/f/*", .text("x"))
        bench.server.route("/gone/*", .status(404))
        try bench.scratch.makeDirectory("out")
        for number in 0..<50 { try bench.scratch.write("old", to: "out/\(number)") }
        var list = (0..<150).map { bench.url("/f/\($0)") } + (0..<20).map { bench.url("/gone/x\($0)") }
        list += ["\(bench.url("/f/7"))?again", bench.url("/f/200") + "\n  out=7.1"]
        try bench.scratch.write(list.joined(separator: "\n"), to: "list")
        let result = try await bench.get("--no-clobber", "-d", "out", "--json", "--retry", "0", "-i", "list")
        #expect(result.status == 7)
        #expect(try result.objects().count == 172)
        #expect(result.errors.contains("102 downloaded, 50 skipped, 20 failed"), "\(result.errors.suffix(300))")
        // The name that the list specifies is reserved for its file.
        #expect(try bench.scratch.text("out/7.1") == "x" && bench.scratch.text("out/7.2") == "x")
        #expect(Set(try result.objects().compactMap { $0["line"] as? Double }).count == 172)
    }

    @Test func `many concurrent transfers work with a low soft descriptor limit`() async throws {
        let bench = try Workbench()
        for number in 0..<128 { bench.server.route("/f\(number)", .text("x")) }
        try bench.scratch.write((0..<128).map { bench.url("/f\($0)") + "\n" }.joined(), to: "list")
        let command = "ulimit -Sn 64; exec $convoy get -d out -j 128 --retry 0 -i list"
        let result = try await ToolProcess.run(command: command, in: bench.scratch.url)
        #expect(result.status == 0 && result.output.contains("128 downloaded"), "\(result.errors.suffix(500))")
    }

    @Test func `after Ctrl-C, the printed command names a file with the remaining URLs`() async throws {
        let bench = try Workbench()
        _ = bench.serve(100_000, at: "/done")
        bench.hold(count: 100_000, at: "/held", after: 50_000)
        let urls = [bench.url("/done"), bench.url("/held")] + (0..<40).map { bench.url("/held?\($0)&token=abcdefgh") }
        let tool = try ToolProcess(["get", "-j", "2"] + urls, in: bench.scratch.url)
        try await waitUntil("the first file, and bytes of the second") {
            bench.scratch.names.contains("done")
                && bench.scratch.names.contains { $0.hasPrefix("held") && $0.hasSuffix("convoypart") }
        }
        tool.send(signal: SIGINT)
        let errors = try await tool.finished().errorLines
        #expect(errors.last == "convoy: to resume: convoy get --no-clobber -j 2 -i convoy-urls.txt")
        #expect(try bench.scratch.text("convoy-urls.txt") == urls.map { "\($0)\n" }.joined())
        let attributes = try FileManager.default.attributesOfItem(
            atPath: bench.scratch.url.appendingPathComponent("convoy-urls.txt").path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        bench.gate.open()
        let next = try await ToolProcess.run(
            command: "exec $convoy get --no-clobber -j 2 -i convoy-urls.txt", in: bench.scratch.url)
        #expect(next.status == 0 && next.output.contains("41 downloaded, 1 skipped,"), "\(next.output)")
        #expect(bench.scratch.names.count == 43)
    }
}
