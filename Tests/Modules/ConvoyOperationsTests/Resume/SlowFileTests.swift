import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import ConvoyTransport
import Foundation
import Testing

@testable import ConvoyOperations

/// Tests that slow file system calls run on worker threads while the network thread serves other transfers.
@Suite struct SlowFileTests {
    let server: TestServer
    let directory: TemporaryDirectory

    init() throws {
        server = try TestServer()
        directory = try TemporaryDirectory()
        server.route("GET", "/file", .pattern(count: Self.size))
    }

    private static let size = 2 << 20

    /// Whether each call of a kind ran on the network thread, in order.
    private struct Threads {
        var empty: [Bool] = []
        var write: [Bool] = []
        var close: [Bool] = []
    }

    private func threads(
        _ name: String, clock: @escaping @Sendable () -> MonotonicTime = { 0 },
        whenWritten: @escaping @Sendable (_ count: Int) -> Void = { _ in }
    ) throws -> Threads {
        let threads = Guarded(Threads())
        var calls = FileCalls()
        let (empty, write, close) = (calls.empty, calls.write, calls.close)
        calls.empty = { descriptor in
            threads.withLock { $0.empty.append(NetworkThread.isCurrent) }
            return empty(descriptor)
        }
        calls.write = { descriptor, bytes in
            whenWritten(
                threads.withLock { threads in
                    threads.write.append(NetworkThread.isCurrent)
                    return threads.write.count
                })
            return write(descriptor, bytes)
        }
        calls.close = { descriptor in
            threads.withLock { $0.close.append(NetworkThread.isCurrent) }
            return close(descriptor)
        }
        let file = directory.file(name)
        let writer = FileWriter(inPlace: file.path, calls: calls)
        let sink = FileSink(file, writer, isProvisional: false, clock: clock)
        let probe = Probe(server.url("/file"), into: sink)
        probe.operation.start()
        #expect(probe.outcome() == Probe.succeeded, "\(String(describing: probe.error))")
        #expect(try Data(contentsOf: file) == PatternBytes.data(count: Self.size))
        return threads.withLock { $0 }
    }

    @Test func `a new file is written on the network thread`() throws {
        let threads = try threads("new")
        #expect(threads.empty.isEmpty)
        #expect(threads.write.count > 1 && threads.write.allSatisfy(\.self))
        #expect(threads.close.last == true)
    }

    @Test func `a file's contents are discarded on a worker thread, which also closes it`() throws {
        _ = try directory.write(Data(count: 3 << 20), to: "old")
        let threads = try threads("old")
        #expect(threads.empty == [false])
        // The first bytes are written on the thread that discarded the old ones.
        #expect(threads.write.first == false && threads.write.dropFirst().contains(true))
        #expect(threads.close.last == false)
    }

    @Test func `writes move off the network thread after a slow one`() throws {
        let now = Guarded<MonotonicTime>(0)
        let threads = try threads("slow") {
            now.withLock { $0 }
        } whenWritten: { count in
            if count == 3 { now.withLock { $0 += FileSink.longestWrite + 1 } }
        }
        #expect(Array(threads.write.prefix(3)) == [true, true, true])
        #expect(threads.write.count > 3 && !threads.write.dropFirst(3).contains(true))
        #expect(threads.close.last == false)
    }
}
