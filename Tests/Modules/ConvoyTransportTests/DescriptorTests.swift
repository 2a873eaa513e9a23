import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Tests that transfers without free descriptors wait instead of failing, as long as others can finish.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"), .serialized)
struct DescriptorTests {
    // A server in another process, so that its ends of connections need no descriptors of this process.
    let nginx: Nginx

    init() throws {
        nginx = try Nginx()
        // A thread that starts later does not raise the limit that a test lowers.
        DescriptorLimit.raise
    }

    @Test func `all transfers succeed if there are more of them than descriptors`() throws {
        let request = URLRequest(url: nginx.url("small"))
        let thread = NetworkThread()
        #expect(try #require(load(request, thread: thread)).isFinished)

        let collectors = try withDescriptors(60) {
            let collectors = (0..<300).map { _ in Collector() }
            for collector in collectors {
                RequestChain(request: request, delegate: collector, thread: thread).start()
            }
            for collector in collectors { _ = collector.wait() }
            return collectors
        }
        let unfinished = collectors.map(\.heardSoFar).filter { !$0.isFinished }
        #expect(unfinished.isEmpty, "\(unfinished.count) are not finished; the first: \(unfinished.prefix(1))")
        #expect(try #require(load(request, thread: thread)).isFinished)
    }

    /// Opens a file, as long as the remaining descriptors are not reserved.
    private func mayOpenFile(after wait: DescriptorWait? = nil) -> Bool {
        do throws(URLError) {
            return try DescriptorLimit.openFiles(1, after: wait, else: URLError(lackingDescriptorFor: nil)) {
                (_: Bool) throws(URLError) in true
            }
        } catch {
            return false
        }
    }

    @Test func `opening a file waits for descriptors only while others can free them`() throws {
        let request = URLRequest(url: nginx.url("small"))
        let thread = NetworkThread()
        #expect(try #require(load(request, thread: thread)).isFinished)
        let waits = Locked<[DescriptorWait]>([])
        let ended = DispatchSemaphore(value: 0)
        @Sendable func note(_ wait: DescriptorWait) {
            waits.withLock { $0.append(wait) }
            ended.signal()
        }
        func wait(after earlier: DescriptorWait? = nil, while isWanted: Bool = true) throws -> DescriptorWait {
            thread.awaitDescriptors(after: earlier, while: { isWanted }, then: note)
            #expect(ended.wait(timeout: .now() + 100) == .success)
            return try #require(waits.withLock { $0.popLast() })
        }
        #expect(mayOpenFile())
        try withDescriptors(10) {
            var taken = takeAll()
            defer { for descriptor in taken { close(descriptor) } }
            #expect(!mayOpenFile())
            // The descriptor of this wait is no longer needed.
            #expect(try wait(while: false).isLast)
            // Nothing is running, so this file may take the last descriptors.
            let start = NetworkRunLoop.now
            var last = try wait()
            #expect(!last.isLast && mayOpenFile(after: last))
            // Nothing can free a descriptor, so the wait ends after five seconds.
            while !last.isLast {
                last = try wait(after: last)
                taken += takeAll()
            }
            #expect(4_000_000_000..<60_000_000_000 ~= NetworkRunLoop.now - start)
        }
        #expect(mayOpenFile())
    }

    @Test func `a transfer that can end prolongs the wait, and a suspended one does not`() throws {
        try nginx.add(Data(count: 40_000_000), as: "slow")
        let thread = NetworkThread()
        let collector = Collector(onData: { $0.suspendReceiving() })
        let connection = RequestChain(
            request: URLRequest(url: nginx.url("slow")), delegate: collector, thread: thread)
        connection.start()
        let waits = Locked<[DescriptorWait]>([])
        let ended = DispatchSemaphore(value: 0)
        @Sendable func wait(after earlier: DescriptorWait?) {
            thread.awaitDescriptors(after: earlier, while: { true }) { next in
                waits.withLock { $0.append(next) }
                if next.isLast { ended.signal() } else { wait(after: next) }
            }
        }
        wait(after: nil)
        #expect(ended.wait(timeout: .now() + 100) == .success)
        // Each wait ends after a quarter of a second.
        #expect(10...30 ~= waits.withLock { $0.count })
        connection.cancel()
        #expect(collector.wait() != nil)
    }

    @Test func `files opened concurrently do not use the same descriptors`() throws {
        try withDescriptors(100) {
            func openFiles(_ depth: Int) -> Int {
                guard depth < 1_000 else { return depth }
                do throws(URLError) {
                    return try DescriptorLimit.openFiles(2, after: nil, else: URLError(lackingDescriptorFor: nil)) {
                        (_: Bool) throws(URLError) in openFiles(depth + 1)
                    }
                } catch {
                    return depth
                }
            }
            let count = openFiles(0)
            // The lowest unused descriptor is an estimate, so the number depends on the descriptors above it.
            #expect(20..<1_000 ~= count)
            #expect(mayOpenFile())
        }
    }

    @Test func `connections leave some descriptors free for short-lived files`() throws {
        // At 8 MB/s, no transfer of 16 MB ends while the others use up the descriptors.
        try nginx.add(Data(count: 16_000_000), as: "slow")
        let thread = NetworkThread()
        // Closed sockets are no longer counted, and none is counted twice.
        var small = URLRequest(url: nginx.url("small"))
        small.setValue("close", forHTTPHeaderField: "Connection")
        for _ in 0..<30 { #expect(try #require(load(small, thread: thread)).isFinished) }
        try withDescriptors(50) {
            let transfers = (0..<60).map { number in
                let collector = Collector()
                let url = nginx.url("few-1/slow").appending(queryItems: [URLQueryItem(name: "key", value: "\(number)")])
                return (RequestChain(request: URLRequest(url: url), delegate: collector, thread: thread), collector)
            }
            for (transfer, _) in transfers { transfer.start() }
            var (least, mayBeOpen) = (50, rlimit())
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &mayBeOpen)
            while transfers[0].1.ended.wait(timeout: .now() + .milliseconds(1)) == .timedOut {
                least = min(least, (0..<Int32(mayBeOpen.rlim_cur)).count { fcntl($0, F_GETFD) < 0 })
            }
            // Allow for one descriptor less while a socket is closed and opened again, and for one opened by other
            // code.
            let kept = min(32, Int(mayBeOpen.rlim_cur) / 8)
            #expect(kept - 2...kept + 2 ~= least)
            #expect(transfers[0].1.heardSoFar.isFinished)
            for (transfer, _) in transfers { transfer.cancel() }
            for (_, collector) in transfers.dropFirst() { _ = collector.wait() }
        }
    }

    @Test func `a connection may take one of the last descriptors if no other is open`() throws {
        var request = URLRequest(url: nginx.url("small"))
        request.setValue("close", forHTTPHeaderField: "Connection")
        let thread = NetworkThread()
        // Closed sockets are no longer counted.
        for _ in 0..<3 { #expect(try #require(load(request, thread: thread)).isFinished) }
        let last = try withDescriptors(6) { try #require(load(request, thread: thread)) }
        #expect(last.isFinished)
    }

    /// Opens as many files as the process can.
    private func takeAll() -> [Int32] {
        var taken: [Int32] = []
        while case let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC), descriptor >= 0 { taken.append(descriptor) }
        return taken
    }

    /// Calls `body` while the process may open only the given number of additional descriptors.
    private func withDescriptors<Result>(_ count: Int, _ body: () throws -> Result) throws -> Result {
        var old = rlimit()
        try #require(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old) == 0)
        // Use the lowest limit that leaves exactly this number of free descriptors. Higher descriptors may have been
        // open since the process started.
        let free = (0..<Int32(clamping: old.rlim_cur)).lazy.filter { fcntl($0, F_GETFD) < 0 }
        var new = old
        new.rlim_cur = rlim_t(try #require(free.dropFirst(count).first))
        try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &new) == 0)
        defer { _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old) }
        return try body()
    }
}
