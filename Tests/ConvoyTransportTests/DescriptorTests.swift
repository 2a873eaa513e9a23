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

    init() throws { nginx = try Nginx() }

    @Test func `all transfers succeed if there are more of them than descriptors`() throws {
        let request = URLRequest(url: nginx.url("small"))
        let thread = NetworkThread()
        #expect(try #require(load(request, thread: thread)).isFinished)

        let collectors = try withDescriptors(60) {
            let collectors = (0..<300).map { _ in Collector() }
            for collector in collectors {
                URLConnection(request: request, delegate: collector, thread: thread).start()
            }
            for collector in collectors { _ = collector.wait() }
            return collectors
        }
        let unfinished = collectors.map(\.heardSoFar).filter { !$0.isFinished }
        #expect(unfinished.isEmpty, "\(unfinished.count) are not finished; the first: \(unfinished.prefix(1))")
        #expect(try #require(load(request, thread: thread)).isFinished)
    }

    @Test func `opening a file waits for descriptors only while others can free them`() throws {
        let request = URLRequest(url: nginx.url("small"))
        let thread = NetworkThread()
        #expect(try #require(load(request, thread: thread)).isFinished)
        let last = Locked<[Bool]>([])
        let opened = DispatchSemaphore(value: 0)
        @Sendable func note(_ claim: DescriptorClaim) {
            last.withLock { $0.append(claim.isLast) }
            opened.signal()
        }
        #expect(NetworkThread.claimDescriptors(1) != nil)
        try withDescriptors(10) {
            var taken = takeAll()
            defer { for descriptor in taken { close(descriptor) } }
            #expect(NetworkThread.claimDescriptors(1) == nil)
            var claim: DescriptorClaim?
            for _ in 0..<10 {
                claim = nil
                last.withLock { $0 = [] }
                // The descriptor of this wait is no longer needed.
                thread.awaitDescriptors(1, after: nil, while: { false }, then: note)
                #expect(opened.wait(timeout: .now() + 100) == .success)
                // Nothing is running, so this call may take the last descriptors.
                thread.awaitDescriptors(1, after: nil, while: { true }, then: note)
                #expect(opened.wait(timeout: .now() + 100) == .success)
                // While the last claim is held, there is nothing to wait for.
                claim = DescriptorClaim(1)
                for _ in 0..<3 { thread.awaitDescriptors(1, after: claim, while: { true }, then: note) }
                for _ in 0..<3 { #expect(opened.wait(timeout: .now() + 100) == .success) }
                // Descriptors of an earlier test may have been closed in the meantime, so that one became available.
                let freed = takeAll()
                taken += freed
                if freed.isEmpty { break }
            }
            #expect(last.withLock { $0 } == [true, false, true, true, true])
            thread.awaitDescriptors(1, after: nil, while: { true }, then: note)
            withExtendedLifetime(claim) {}
        }
        // Descriptors are available again.
        #expect(opened.wait(timeout: .now() + 100) == .success)
        #expect(last.withLock { $0.last } == false)
    }

    @Test func `files opened concurrently do not claim the same descriptors`() throws {
        try withDescriptors(100) {
            var claims: [DescriptorClaim] = []
            // Claims run out even before any of the descriptors is used.
            while claims.count < 10_000, let claim = NetworkThread.claimDescriptors(2) { claims.append(claim) }
            #expect(claims.count < 10_000)
            claims.removeLast()
            #expect(NetworkThread.claimDescriptors(2) != nil)
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
        try withDescriptors(20) {
            let transfers = (0..<40).map { number in
                let collector = Collector()
                let url = nginx.url("few-1/slow").appending(queryItems: [URLQueryItem(name: "key", value: "\(number)")])
                return (URLConnection(request: URLRequest(url: url), delegate: collector, thread: thread), collector)
            }
            for (transfer, _) in transfers { transfer.start() }
            var (least, mayBeOpen) = (20, rlimit())
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &mayBeOpen)
            while transfers[0].1.ended.wait(timeout: .now() + .milliseconds(1)) == .timedOut {
                least = min(least, (0..<Int32(mayBeOpen.rlim_cur)).count { fcntl($0, F_GETFD) < 0 })
            }
            // Allow for one descriptor less while a socket is closed and opened again, and for one opened by other
            // code.
            let kept = min(8, Int(mayBeOpen.rlim_cur) / 8)
            #expect(kept - 2...kept ~= least)
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
        let last = try withDescriptors(2) { try #require(load(request, thread: thread)) }
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
