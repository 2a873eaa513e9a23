import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Running out of descriptors makes transfers wait, not fail, as long as others can finish.
@Suite(.enabled(if: Nginx.isInstalled, "needs \(Nginx.installHint)"), .serialized)
struct DescriptorTests {
    // A server in another process: its end of a connection must not need a descriptor of this one.
    let nginx: Nginx

    init() throws { nginx = try Nginx() }

    @Test func `more transfers than descriptors all succeed`() throws {
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

    @Test func `a file waits for transfers to end, and for itself only where none runs`() throws {
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
                // Not wanted any more.
                thread.awaitDescriptors(1, after: nil, while: { false }, then: note)
                #expect(opened.wait(timeout: .now() + 100) == .success)
                // Nothing runs, so that some may be free for this one alone.
                thread.awaitDescriptors(1, after: nil, while: { true }, then: note)
                #expect(opened.wait(timeout: .now() + 100) == .success)
                // While that one has its claim, there is nothing to wait for.
                claim = DescriptorClaim(1)
                for _ in 0..<3 { thread.awaitDescriptors(1, after: claim, while: { true }, then: note) }
                for _ in 0..<3 { #expect(opened.wait(timeout: .now() + 100) == .success) }
                // What an earlier test has left may have been closed meanwhile, so that there was a descriptor after all.
                let freed = takeAll()
                taken += freed
                if freed.isEmpty { break }
            }
            #expect(last.withLock { $0 } == [true, false, true, true, true])
            thread.awaitDescriptors(1, after: nil, while: { true }, then: note)
            withExtendedLifetime(claim) {}
        }
        // There are descriptors again.
        #expect(opened.wait(timeout: .now() + 100) == .success)
        #expect(last.withLock { $0.last } == false)
    }

    @Test func `files that are opened together do not count on the same descriptors`() throws {
        try withDescriptors(100) {
            var claims: [DescriptorClaim] = []
            // Fewer than there are numbers, though none is taken.
            while claims.count < 10_000, let claim = NetworkThread.claimDescriptors(2) { claims.append(claim) }
            #expect(claims.count < 10_000)
            claims.removeLast()
            #expect(NetworkThread.claimDescriptors(2) != nil)
        }
    }

    @Test func `connections leave some descriptors for what is open for a moment`() throws {
        let request = URLRequest(url: nginx.url("small"))
        let thread = NetworkThread()
        // Those that have been closed are not counted any more.
        var last = request
        last.setValue("close", forHTTPHeaderField: "Connection")
        for _ in 0..<30 { #expect(try #require(load(last, thread: thread)).isFinished) }
        #expect(try #require(load(request, thread: thread)).isFinished)
        try withDescriptors(20) {
            let collectors = (0..<100).map { _ in Collector() }
            for collector in collectors {
                URLConnection(request: request, delegate: collector, thread: thread).start()
            }
            var isFree = true
            for collector in collectors {
                let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
                isFree = isFree && descriptor >= 0
                if descriptor >= 0 { close(descriptor) }
                _ = collector.wait()
            }
            #expect(isFree)
            #expect(collectors.allSatisfy { $0.heardSoFar.isFinished })
        }
    }

    /// Opens as many files as the process may.
    private func takeAll() -> [Int32] {
        var taken: [Int32] = []
        while case let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC), descriptor >= 0 { taken.append(descriptor) }
        return taken
    }

    /// Calls `body` while the process may open only this many more descriptors.
    private func withDescriptors<Result>(_ count: Int, _ body: () throws -> Result) throws -> Result {
        var old = rlimit()
        try #require(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old) == 0)
        let highest = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int($0) }.max() ?? 0
        var new = old
        new.rlim_cur = min(old.rlim_cur, rlim_t(highest + 1 + count))
        try #require(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &new) == 0)
        defer { _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &old) }
        return try body()
    }
}
