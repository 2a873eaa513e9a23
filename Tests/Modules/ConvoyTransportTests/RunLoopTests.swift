import ConvoySupport
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyTransport

/// The run loop.
@Suite struct RunLoopTests {
    /// A run loop on its own thread.
    private final class Running: Sendable {
        let loop: NetworkRunLoop
        private let ended = DispatchSemaphore(value: 0)

        init() throws {
            loop = try NetworkRunLoop()
            let (loop, ended) = (self.loop, self.ended)
            Thread {
                loop.run()
                ended.signal()
            }.start()
        }

        func stop() -> Bool {
            loop.stop()
            return ended.wait(timeout: .now() + 100) == .success
        }
    }

    @Test func `blocks from many threads run once, in the order of each thread`() throws {
        let running = try Running()
        let seen = Locked<[Int: [Int]]>([:])
        let done = DispatchSemaphore(value: 0)
        for thread in 0..<8 {
            Thread {
                for number in 0..<1_000 {
                    running.loop.perform {
                        seen.withLock { $0[thread, default: []].append(number) }
                        if number == 999 { done.signal() }
                    }
                }
            }.start()
        }
        for _ in 0..<8 { #expect(done.wait(timeout: .now() + 100) == .success) }
        #expect(seen.withLock { $0 } == Dictionary(uniqueKeysWithValues: (0..<8).map { ($0, Array(0..<1_000)) }))
        #expect(running.stop())
    }

    @Test func `a woken loop goes back to sleep`() throws {
        let running = try Running()
        let nanoseconds = Locked<[Int]>([])
        for count in 1...4 {
            running.loop.perform {
                var time = timespec()
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
                nanoseconds.withLock { $0.append(time.tv_sec * 1_000_000_000 + time.tv_nsec) }
            }
            try eventually { nanoseconds.withLock { $0.count } == count }
            // Leave the loop without work.
            usleep(100_000)
        }
        let times = nanoseconds.withLock { $0 }
        #expect(times[3] - times[0] < 20_000_000)
        #expect(running.stop())
    }

    @Test func `unwatched events do not wake the thread`() throws {
        var pair: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        try #require(socketpair(AF_UNIX, type, 0, &pair) == 0)
        defer { for descriptor in pair { close(descriptor) } }
        // The socket has a byte to read, but no space for more.
        let block = [UInt8](repeating: 0, count: 4096)
        while write(pair[0], block, block.count) > 0 {}
        #expect(write(pair[1], block, 1) == 1)
        let poller = try Poller()
        try poller.watch(pair[0], for: [.writable])
        let start = ContinuousClock.now
        for _ in 0..<10 { poller.report(poller.wait(milliseconds: 20)) { _, events in Issue.record("\(events)") } }
        #expect(ContinuousClock.now - start > .milliseconds(100))
    }

    @Test func `timers fire in the order of their deadlines`() throws {
        let running = try Running()
        let fired = Locked<[Int]>([])
        let done = DispatchSemaphore(value: 0)
        let loop = running.loop
        let order = (0..<200).map { ($0 * 37) % 200 }
        loop.perform {
            let now = NetworkRunLoop.now
            var cancelled: [RunLoopTimer] = []
            for number in order {
                let timer = RunLoopTimer {
                    fired.withLock { $0.append(number) }
                    if number == 199 { done.signal() }
                }
                loop.schedule(timer, at: now + UInt64(number) * 100_000)
                // Some timers are moved to the same time again, and others are cancelled.
                loop.schedule(timer, at: now + 1_000_000_000)
                loop.schedule(timer, at: now + UInt64(number) * 100_000)
                if number % 10 == 3 { cancelled.append(timer) }
            }
            for timer in cancelled { loop.cancel(timer) }
        }
        #expect(done.wait(timeout: .now() + 100) == .success)
        #expect(fired.withLock { $0 } == (0..<200).filter { $0 % 10 != 3 })
        #expect(running.stop())
    }

    @Test func `a timer that reschedules itself immediately does not starve other work`() throws {
        let running = try Running()
        let loop = running.loop
        let ran = DispatchSemaphore(value: 0)
        loop.perform {
            final class Again {
                var timer: RunLoopTimer?
                var isOver = false
            }
            let again = Again()
            again.timer = RunLoopTimer {
                if let timer = again.timer, !again.isOver { loop.schedule(timer, at: 1) }
            }
            struct Box: @unchecked Sendable { let again: Again }
            let box = Box(again: again)
            if let timer = again.timer { loop.schedule(timer, at: 1) }
            // Run this after the timer has started.
            loop.perform {
                loop.perform {
                    box.again.isOver = true
                    box.again.timer = nil
                    ran.signal()
                }
            }
        }
        #expect(ran.wait(timeout: .now() + 100) == .success)
        #expect(running.stop())
    }

    @Test func `a timer with the maximum deadline leaves the loop asleep but wakeable`() throws {
        let running = try Running()
        let loop = running.loop
        let ran = DispatchSemaphore(value: 0)
        loop.perform { loop.schedule(RunLoopTimer {}, at: .max) }
        for _ in 0..<10 {
            loop.perform { ran.signal() }
            #expect(ran.wait(timeout: .now() + 100) == .success)
        }
        #expect(running.stop())
    }

    @Test func `a handler may stop watching its own descriptor and close it`() throws {
        let running = try Running()
        let loop = running.loop
        for _ in 0..<20 {
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let (readEnd, writeEnd) = (ends[0], ends[1])
            let calls = Locked(0)
            let ended = DispatchSemaphore(value: 0)
            loop.perform {
                let reader = Reader { descriptor, _ in
                    calls.withLock { $0 += 1 }
                    try? loop.unwatch(descriptor)
                    close(descriptor)
                    // Further reports in this turn and the next would arrive before the signal.
                    loop.perform { loop.perform { ended.signal() } }
                }
                try? loop.watch(readEnd, for: .readable, handler: reader)
            }
            write(writeEnd, "x", 1)
            #expect(ended.wait(timeout: .now() + 100) == .success)
            #expect(calls.withLock { $0 } == 1)
            close(writeEnd)
        }
        #expect(running.stop())
    }

    @Test func `watching an invalid descriptor is an error`() throws {
        let running = try Running()
        let loop = running.loop
        let failures = Locked(0)
        let done = DispatchSemaphore(value: 0)
        loop.perform {
            do {
                try loop.watch(-1, for: .readable, handler: Reader { _, _ in })
            } catch {
                failures.withLock { $0 += 1 }
            }
            try? loop.unwatch(-1)
            try? loop.unwatch(1 << 20)
            done.signal()
        }
        #expect(done.wait(timeout: .now() + 100) == .success)
        #expect(failures.withLock { $0 } == 1)
        #expect(running.stop())
    }

    @Test func `all ready descriptors are handled even if one call cannot report them all`() throws {
        let count = 400
        ProcessMeters.raiseDescriptorLimit()
        let running = try Running()
        let loop = running.loop
        let pipes = try (0..<count).map { _ in
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            return ends
        }
        defer { for end in pipes.joined() { close(end) } }
        let heard = Locked<Set<Int32>>([])
        let done = DispatchSemaphore(value: 0)
        for ends in pipes { write(ends[1], "x", 1) }
        loop.perform {
            for ends in pipes {
                let reader = Reader { descriptor, _ in
                    var byte: UInt8 = 0
                    _ = read(descriptor, &byte, 1)
                    let number = heard.withLock { heard in
                        heard.insert(descriptor)
                        return heard.count
                    }
                    if number == count { done.signal() }
                }
                try? loop.watch(ends[0], for: .readable, handler: reader)
            }
        }
        #expect(done.wait(timeout: .now() + 100) == .success)
        #expect(running.stop())
    }

    /// A signal ends only the wait in the system call.
    @Test func `a signal neither ends the loop nor loses an event`() throws {
        signal(SIGUSR2) { _ in }
        let running = try Running()
        let loop = running.loop
        let identity = Locked<pthread_t?>(nil)
        let ran = DispatchSemaphore(value: 0)
        loop.perform {
            identity.withLock { $0 = pthread_self() }
            ran.signal()
        }
        #expect(ran.wait(timeout: .now() + 100) == .success)
        let thread = try #require(identity.withLock { $0 })
        for _ in 0..<200 {
            #expect(pthread_kill(thread, SIGUSR2) == 0)
            loop.perform { ran.signal() }
            #expect(ran.wait(timeout: .now() + 100) == .success)
        }
        #expect(running.stop())
    }

    private final class Reader: FileEventHandler {
        let read: (Int32, FileEvents) -> Void
        init(_ read: @escaping (Int32, FileEvents) -> Void) { self.read = read }
        func fileDescriptor(_ descriptor: Int32, isReadyFor events: FileEvents) { read(descriptor, events) }
    }

    @Test func `descriptors are reported only while they are watched`() throws {
        let running = try Running()
        let loop = running.loop
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let (readEnd, writeEnd) = (ends[0], ends[1])
        defer {
            close(readEnd)
            close(writeEnd)
        }
        let events = Locked(0)
        let seen = DispatchSemaphore(value: 0)
        loop.perform {
            let reader = Reader { descriptor, _ in
                var byte: UInt8 = 0
                _ = read(descriptor, &byte, 1)
                events.withLock { $0 += 1 }
                seen.signal()
            }
            try? loop.watch(readEnd, for: .readable, handler: reader)
        }
        for _ in 0..<3 {
            write(writeEnd, "x", 1)
            #expect(seen.wait(timeout: .now() + 100) == .success)
        }
        let stopped = DispatchSemaphore(value: 0)
        loop.perform {
            try? loop.watch(readEnd, for: [], handler: Reader { _, _ in })
            stopped.signal()
        }
        #expect(stopped.wait(timeout: .now() + 100) == .success)
        write(writeEnd, "x", 1)
        let turned = DispatchSemaphore(value: 0)
        for _ in 0..<3 { loop.perform { turned.signal() } }
        for _ in 0..<3 { turned.wait() }
        #expect(events.withLock { $0 } == 3)
        #expect(running.stop())
    }

    @Test func `a hundred parallel transfers succeed`() throws {
        let server = try TestServer()
        server.servePattern(count: 100_000, at: "/data")
        let thread = NetworkThread()
        let collectors = (0..<100).map { _ in Collector() }
        for collector in collectors {
            RequestChain(request: URLRequest(url: server.url("/data")), delegate: collector, thread: thread).start()
        }
        for collector in collectors {
            let heard = try #require(collector.wait())
            #expect(heard.isFinished)
            #expect(heard.body.withUnsafeBytes { PatternBytes.matches($0, offset: 0) } && heard.body.count == 100_000)
        }
    }

    @Test func `an unused thread ends and closes its descriptors`() throws {
        let server = try TestServer()
        server.route("GET", "/", .text("x"))
        do {
            let thread = NetworkThread()
            #expect(load(URLRequest(url: server.url("/")), thread: thread)?.isFinished == true)
        }
        try server.wait(timeout: 100) { $0.openConnectionCount == 0 }
    }

    @Test func `receiving can be paused and resumed`() throws {
        let server = try TestServer()
        server.servePattern(count: 5_000_000, at: "/data")
        let held = DispatchSemaphore(value: 0)
        let isFirst = Atomic<Bool>(true)
        let collector = Collector(onData: { connection in
            if isFirst.exchange(false, ordering: .relaxed) {
                connection.suspendReceiving()
                held.signal()
            }
        })
        var request = URLRequest(url: server.url("/data"))
        request.timeoutInterval = 0.2  // does not count while this side holds back
        let connection = RequestChain(request: request, delegate: collector)
        connection.start()
        #expect(held.wait(timeout: .now() + 100) == .success)
        let before = collector.body.count
        #expect(collector.wait(within: 0.5) == nil)
        #expect(collector.body.count == before)
        connection.resumeReceiving()
        #expect(collector.wait()?.body.count == 5_000_000)
    }
}
