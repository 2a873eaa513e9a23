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
        let opened = DispatchSemaphore(value: 0)
        #expect(!NetworkThread.lacksDescriptors)
        try withDescriptors(10) {
            var taken: [Int32] = []
            defer { for descriptor in taken { close(descriptor) } }
            while case let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC), descriptor >= 0 { taken.append(descriptor) }
            #expect(NetworkThread.lacksDescriptors)
            // Not wanted any more.
            thread.awaitDescriptors(while: { false }, then: { opened.signal() })
            #expect(opened.wait(timeout: .now() + 100) == .success)
            // There is nothing to wait for.
            thread.awaitDescriptors(while: { true }, then: { opened.signal() })
            #expect(opened.wait(timeout: .now() + 100) == .success)
            thread.awaitDescriptors(while: { true }, then: { opened.signal() })
        }
        // There are descriptors again.
        #expect(opened.wait(timeout: .now() + 100) == .success)
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
