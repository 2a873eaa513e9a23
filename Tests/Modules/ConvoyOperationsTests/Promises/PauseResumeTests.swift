import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

/// Promise 5: after any number of pauses, the bytes are those of the file, regardless of how the server handles ranges.
@Suite struct PauseResumeTests {
    static let size = 32 << 20

    /// Pauses at the given byte counts, resumes each time, and returns the finished probe.
    private func download(
        _ url: URL, pausingAt offsets: [Int64], output: OutputStream? = nil,
        betweenPauseAndResume: @escaping @Sendable () -> Void = {}
    ) throws -> Probe {
        let probe = Probe(url, output: output)
        let paused = Signal()
        let rest = Offsets(offsets.sorted())
        probe.operation.downloadProgressHandler = { [operation = probe.operation] _, total, _ in
            if rest.passes(total) {
                operation.pause()
                paused.fire()
            }
        }
        let queue = RequestOperationQueue()
        queue.addOperation(probe.operation)
        // Resume after each pause until the operation has finished.
        let resumer = Thread { [operation = probe.operation] in
            while paused.wait(within: 100), !operation.isFinished {
                betweenPauseAndResume()
                operation.resume()
            }
        }
        resumer.start()
        let outcome = try #require(probe.outcome(within: 100), "never arrived: \(probe.operation)")
        paused.fire()
        #expect(outcome == Probe.succeeded, "\(String(describing: probe.operation.error))")
        return probe
    }

    private func randomOffsets(_ random: inout SplitMix64) -> [Int64] {
        (0..<3).map { _ in Int64.random(in: 0..<Int64(Self.size), using: &random) }
    }

    private func expectPattern(_ data: Data?) {
        #expect(data?.count == Self.size)
        #expect(data?.withUnsafeBytes { PatternBytes.matches($0, offset: 0) } == true)
    }

    @Test func `a download from the loopback server that is paused at random moments is correct`() throws {
        let server = try TestServer()
        // The body is slow enough for the handler's queue to pause it in the middle.
        server.servePattern(count: Self.size, at: "/file", etag: "\"v1\"") { _, response in
            response.bandwidth(bytesPerSecond: 400_000_000)
        }
        var random = SplitMix64.printingSeed()
        let rounds = PropertyBudget.rounds(5)
        for _ in 0..<rounds {
            let probe = try download(server.url("/file"), pausingAt: randomOffsets(&random))
            expectPattern(probe.operation.responseData)
        }
        // The transfers were resumed, not started over.
        let resumed = server.requests.filter { $0.headers["Range"] != nil }
        #expect(resumed.count > rounds)
        #expect(resumed.allSatisfy { $0.headers["If-Range"] == "\"v1\"" })
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `a download paused at random moments is correct from nginx`() throws {
        let nginx = try Nginx()
        _ = try nginx.add(PatternBytes.data(count: Self.size), as: "file.bin")
        let directory = try TemporaryDirectory()
        var random = SplitMix64.printingSeed()
        for round in 0..<PropertyBudget.rounds(4) {
            // Every other download is written to a file.
            let file = directory.file("download-\(round % 2)")
            let output = round % 2 == 0 ? nil : FileOutputStream(fileURL: file)
            let probe = try download(nginx.url("file.bin"), pausingAt: randomOffsets(&random), output: output)
            expectPattern(output == nil ? probe.operation.responseData : try Data(contentsOf: file))
            #expect(probe.operation.statusCode == 200)
        }
    }

    @Test(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"))
    func `a compressed body starts over and is complete`() throws {
        let nginx = try Nginx()
        let text = Data((0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 / 1_000 + 32) })
        _ = try nginx.add(text, as: "text.txt")
        let probe = try download(nginx.url("gzip/text.txt"), pausingAt: [300_000, 900_000])
        #expect(probe.operation.responseData == text)
    }

    @Test(arguments: [TestServer.RangeBehaviour.ignored, .wrongOffset(by: 7), .wrongTotal, .noContentRange, .unsatisfiable])
    func `a server with wrong ranges is asked for the complete body`(ranges: TestServer.RangeBehaviour) throws {
        let server = try TestServer()
        server.servePattern(count: Self.size, at: "/file", etag: "\"v1\"", ranges: ranges)
        var random = SplitMix64(seed: 3)
        for _ in 0..<5 {
            let probe = try download(server.url("/file"), pausingAt: [Int64.random(in: 1..<20_000_000, using: &random)])
            expectPattern(probe.operation.responseData)
        }
    }

    @Test func `an ETag that changes during a pause yields only the new file`() throws {
        let server = try TestServer()
        let (old, new) = (Data(repeating: 1, count: Self.size), Data(repeating: 2, count: Self.size / 2))
        // The body cannot be complete before the pause.
        server.serve(old, at: "/file", etag: "\"old\"") { _, response in response.stalls(afterBytes: 12_000_000) }
        let probe = try download(server.url("/file"), pausingAt: [10_000_000]) {
            server.serve(new, at: "/file", etag: "\"new\"")
        }
        #expect(probe.operation.responseData == new)
    }

    @Test func `a file stream starts over without leftover bytes`() throws {
        let server = try TestServer()
        let directory = try TemporaryDirectory()
        let (old, new) = (Data(repeating: 1, count: Self.size), Data(repeating: 2, count: 1_000))
        // The body cannot be complete before the pause.
        server.serve(old, at: "/file", etag: "\"old\"") { _, response in response.stalls(afterBytes: 12_000_000) }
        let output = FileOutputStream(fileURL: directory.file("out"))
        _ = try download(server.url("/file"), pausingAt: [10_000_000], output: output) {
            server.serve(new, at: "/file", etag: "\"new\"")
        }
        #expect(try Data(contentsOf: directory.file("out")) == new)
    }

    @Test func `a stream that cannot be rewound fails rather than keep wrong bytes`() throws {
        let server = try TestServer()
        server.serve(Data(repeating: 1, count: Self.size), at: "/file", etag: "\"old\"", ranges: .ignored)
        let directory = try TemporaryDirectory()
        let path = directory.file("out").path
        let output = try #require(OutputStream(toFileAtPath: path, append: true))
        let probe = Probe(server.url("/file"), output: output)
        probe.operation.onFirstBytes { [operation = probe.operation] in
            operation.pause()
            operation.resume()
        }
        probe.operation.start()
        #expect(probe.outcome() == ["failure \(URLError.cannotWriteToFile.rawValue)", "completion"])
    }

    @Test func `a pause at the last byte loses nothing`() throws {
        let server = try TestServer()
        // All bytes have arrived, but the response has not ended. This is the last moment at which a pause can occur.
        server.route("GET", "/last", .text("0123456789").framed(.chunked).stalls(afterBytes: 10))
        let probe = Probe(server.url("/last"))
        let flowing = Signal()
        probe.operation.onFirstBytes { flowing.fire() }
        RequestOperationQueue().addOperation(probe.operation)
        #expect(flowing.wait())
        probe.operation.pause()
        server.route("GET", "/last", .text("0123456789"))
        probe.operation.resume()
        #expect(probe.outcome() == Probe.succeeded)
        #expect(probe.operation.responseString == "0123456789")
    }

    @Test func `a complete body of unknown length is fetched again`() throws {
        let server = try TestServer()
        let whole = Data("the whole of it".utf8)
        // The server sends all bytes, but does not end the body. At the pause, the client has exactly these bytes.
        server.route(
            "GET", "/file",
            .bytes(whole, type: "text/plain").header("ETag", "\"v1\"").framed(.chunked).stalls(afterBytes: whole.count))
        let probe = try download(server.url("/file"), pausingAt: [Int64(whole.count)]) {
            server.removeRoute("/file")
            server.serve(whole, at: "/file", etag: "\"v1\"")
        }
        #expect(probe.operation.responseData == whole)
        #expect(probe.operation.statusCode == 200)
        // The response "nothing after your last byte" does not show that the bytes before it are unchanged.
        #expect(server.requests.map { $0.headers["Range"] } == [nil, "bytes=15-", nil])
    }

    @Test func `nothing is appended without a validator`() throws {
        let server = try TestServer()
        server.servePattern(count: Self.size, at: "/file")
        let probe = try download(server.url("/file"), pausingAt: [5_000_000])
        expectPattern(probe.operation.responseData)
        #expect(server.requests.allSatisfy { $0.headers["Range"] == nil })
    }

    @Test func `an error response to a resumed request is the outcome, and its body is not in the file`() throws {
        let server = try TestServer()
        server.servePattern(count: Self.size, at: "/file", etag: "\"v1\"")
        let directory = try TemporaryDirectory()
        let probe = Probe(server.url("/file"), output: FileOutputStream(fileURL: directory.file("out")))
        let paused = Signal()
        probe.operation.onFirstBytes { [operation = probe.operation] in
            operation.pause()
            paused.fire()
        }
        probe.operation.start()
        #expect(paused.wait())
        server.removeRoute("/file")
        server.route("GET", "/file", .text("gone permanently").status(410))
        probe.operation.resume()
        #expect(probe.outcome() == ["failure -1011", "completion"])
        #expect(probe.operation.statusCode == 410)
        #expect(probe.operation.responseString == "gone permanently")
        let kept = try Data(contentsOf: directory.file("out"))
        #expect(kept.withUnsafeBytes { PatternBytes.matches($0, offset: 0) })
    }
}

private final class Offsets: Sendable {
    private let offsets: Locked<[Int64]>
    init(_ offsets: [Int64]) { self.offsets = Locked(offsets) }

    /// Returns whether the next offset has been reached, and removes the offsets up to the total.
    func passes(_ total: Int64) -> Bool {
        offsets.withLock { offsets in
            guard let first = offsets.first, first <= total else { return false }
            offsets.removeAll { $0 <= total }
            return true
        }
    }
}
