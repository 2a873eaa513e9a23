import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import XCTest

@testable import ConvoyTransport

/// Starting a network thread without free descriptors. The tests use XCTest, which runs them serially, because the
/// limit applies to the entire process.
final class NetworkThreadStartTests: XCTestCase {
    /// Runs a closure while the process cannot open any descriptors.
    private func withoutDescriptors<Result>(_ body: () throws -> Result) throws -> Result {
        // A thread that starts later does not raise the limit again.
        DescriptorLimit.raise
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        XCTAssertEqual(getrlimit(kind, &limit), 0)
        let before = limit
        limit.rlim_cur = 1
        XCTAssertEqual(setrlimit(kind, &limit), 0)
        defer {
            var before = before
            setrlimit(kind, &before)
        }
        return try body()
    }

    func testAThreadThatCouldNotStartStartsAtItsNextUse() throws {
        let server = try TestServer()
        server.route("GET", "/", .text("x"))
        let request = URLRequest(url: server.url("/"))
        let descriptors = ProcessMeters.openDescriptors
        do {
            let thread = NetworkThread()
            for _ in 0..<3 {
                let heard = try withoutDescriptors { load(request, thread: thread) }
                XCTAssertEqual(heard?.error?.code, .cannotLoadFromNetwork)
                XCTAssertEqual(heard?.ends.count, 1)
                XCTAssertFalse(try withoutDescriptors { thread.perform {} })
            }
            XCTAssertLessThanOrEqual(ProcessMeters.openDescriptors, descriptors)
            XCTAssertEqual(load(request, thread: thread)?.text, "x")
            XCTAssertEqual(load(request, thread: thread)?.text, "x")
        }
        server.stop()
        try eventually(timeout: 20, "descriptors to be closed: \(ProcessMeters.descriptorTargets)") {
            ProcessMeters.openDescriptors < descriptors
        }
    }

    func testWithoutAThreadAConnectionFailsAndNothingIsKept() throws {
        // Use a stack size that exceeds the address space.
        let thread = NetworkThread(stackSize: 1 << 50)
        let request = URLRequest(url: try XCTUnwrap(URL(string: "http://127.0.0.1:1/")))
        let descriptors = ProcessMeters.openDescriptors
        for _ in 0..<3 {
            let heard = load(request, thread: thread)
            XCTAssertEqual(heard?.error?.code, .cannotLoadFromNetwork)
            XCTAssertEqual(heard?.ends.count, 1)
        }
        XCTAssertLessThanOrEqual(ProcessMeters.openDescriptors, descriptors)
    }

    func testAThreadTakesNothingBeforeItsFirstUse() throws {
        let before = ProcessMeters.openDescriptors
        let threads = (0..<50).map { _ in NetworkThread() }
        XCTAssertLessThanOrEqual(ProcessMeters.openDescriptors, before)
        withExtendedLifetime(threads) {}
    }

    func testManyThreadsThatUseItFirstStartOne() throws {
        for _ in 0..<100 {
            let thread = NetworkThread()
            let seen = Locked<Set<UInt>>([])
            let done = DispatchGroup()
            let go = DispatchSemaphore(value: 0)
            for _ in 0..<4 {
                done.enter()
                done.enter()
                Thread {
                    go.wait()
                    thread.perform {
                        seen.withLock { _ = $0.insert(UInt(pthread_self())) }
                        done.leave()
                    }
                    done.leave()
                }.start()
            }
            for _ in 0..<4 { go.signal() }
            XCTAssertEqual(done.wait(timeout: .now() + 100), .success)
            XCTAssertEqual(seen.withLock { $0 }.count, 1)
        }
    }
}
