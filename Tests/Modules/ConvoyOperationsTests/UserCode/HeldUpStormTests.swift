import ConvoyCookies
import ConvoyTestServer
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

/// Operations with every possible cause of delay at the same time: shared transfers, cookie handlers, unread
/// pipes, and user code that does not return.
///
/// `CONVOY_STORM_OPERATIONS` sets the number of operations, 500 by default.
@Suite struct HeldUpStormTests {
    private static let size = 200_000
    private static let body = PatternBytes.data(count: size)

    /// The kind of an operation, and its possible ends.
    private enum Kind: CaseIterable {
        case plain, shared, cookies, redirectWithCookies, cut, slowStream, pipe, blockedStream, blockedPreparation,
            blockedCommit

        /// Whether the operation may never end without intervention.
        var mayHang: Bool {
            switch self {
            case .pipe, .blockedStream, .blockedPreparation, .blockedCommit: true
            default: false
            }
        }
    }

    private final class Subject: Sendable {
        let kind: Kind
        let probe: Probe
        /// Releases blocked code.
        let release: @Sendable () -> Void
        let finishes = Atomic<Int>(0)

        init(_ kind: Kind, _ probe: Probe, release: @escaping @Sendable () -> Void = {}) {
            (self.kind, self.probe, self.release) = (kind, probe, release)
        }
    }

    private let server: TestServer
    private let store = CookieStore()

    init() throws {
        var configuration = TestServer.Configuration()
        configuration.recordingLimit = 0
        server = try TestServer(configuration)
        server.servePattern(count: Self.size, at: "/file", etag: "\"v1\"")
        server.route("GET", "/cookies", .pattern(count: Self.size).header("Set-Cookie", "a=1"))
        server.route(
            "GET", "/login",
            .pattern(count: 300_000).status(302).header("Location", "/cookies").header("Set-Cookie", "b=1"))
        server.servePattern(count: Self.size, at: "/cut", etag: "\"v1\"") { request, response in
            request.headers["Range"] == nil ? response.truncated(afterBytes: 100_000) : response
        }
        store.acceptanceHandler = { _, _ in
            if UInt8.random(in: 0..<8) == 0 { letOthersRun(microseconds: 200) } else { sched_yield() }
            return true
        }
    }

    private func subject(_ kind: Kind, _ random: inout SplitMix64) -> Subject {
        let blocker = Blocker()
        switch kind {
        case .plain: return Subject(kind, probe("/file"))
        case .shared:
            let probe = probe("/file")
            probe.operation.coalescesIdenticalRequests = true
            return Subject(kind, probe)
        case .cookies, .redirectWithCookies:
            let probe = probe(kind == .cookies ? "/cookies" : "/login")
            probe.operation.cookieStore = store
            return Subject(kind, probe)
        case .cut:
            let probe = probe("/cut")
            probe.operation.retryPolicy = RetryPolicy(maximumRetryCount: 3)
            probe.operation.retryPolicy?.initialDelay = 0.001
            probe.operation.retryPolicy?.budget = nil
            return Subject(kind, probe)
        case .slowStream: return Subject(kind, probe("/file", ObstinateStream(.nowhere, blocker)))
        case .pipe:
            let pipe = DeafPipe()
            return Subject(kind, probe("/file", DeafStream(pipe)), release: pipe.hangUp)
        case .blockedStream:
            let place = ObstinateStream.Place.blocking.randomElement(using: &random) ?? .write
            return Subject(kind, probe("/file", ObstinateStream(place, blocker)), release: blocker.letThrough)
        case .blockedCommit:
            let probe = probe("/file")
            probe.operation.setBodySink(ProvisionalSink(onCommit: blocker.enter))
            return Subject(kind, probe, release: blocker.letThrough)
        case .blockedPreparation:
            let probe = probe("/file")
            probe.operation.prepare = { _ in blocker.enter() }
            return Subject(kind, probe, release: blocker.letThrough)
        }
    }

    private func probe(_ path: String, _ output: OutputStream? = nil) -> Probe {
        let probe = Probe(server.url(path), output: output)
        return probe
    }

    @Test func `each delayed operation finishes once, with all bytes or an error`() throws {
        let count = Int(ProcessInfo.processInfo.environment["CONVOY_STORM_OPERATIONS"] ?? "") ?? 500
        var random = SplitMix64.printingSeed()
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = 64
        var tally: [String: Int] = [:]
        for start in stride(from: 0, to: count, by: 250) {
            let subjects = (0..<min(250, count - start)).map { _ in
                // Waiting for a commit takes a second.
                let isRare = Int.random(in: 0..<8, using: &random) > 0
                let kind = Kind.allCases.randomElement(using: &random) ?? .plain
                return subject(kind == .blockedCommit && isRare ? .pipe : kind, &random)
            }
            for subject in subjects {
                subject.probe.operation.totalTimeout =
                    subject.kind.mayHang ? Double.random(in: 0.005...0.1, using: &random) : 60
            }
            disturb(subjects, in: queue, &random)
            for subject in subjects {
                let operation = subject.probe.operation
                // An operation that was paused before it was added is not affected by the queue.
                let isOver = eventually {
                    operation.resume()
                    return operation.isFinished
                }
                #expect(isOver, "never arrived: \(subject.kind) \(operation.lifecycle.value)")
                guard isOver, let outcome = subject.probe.outcome() else { return }
                tally["\(subject.kind) \(outcome[0])", default: 0] += 1
                expect(outcome, of: subject)
            }
            for subject in subjects { subject.release() }
        }
        for (what, count) in tally.sorted(by: { $0.key < $1.key }) { print("   \(count) \(what)") }
        #expect(drains(queue))
    }

    /// Adds the operations from four threads, and cancels, pauses and resumes those in progress.
    private func disturb(_ subjects: [Subject], in queue: RequestOperationQueue, _ random: inout SplitMix64) {
        let threads = DispatchGroup()
        for part in 0..<4 {
            let seed = random.fork()
            threads.enter()
            Thread {
                var random = seed
                for number in stride(from: part, to: subjects.count, by: 4) {
                    queue.addOperation(subjects[number].probe.operation)
                    for _ in 0..<3 {
                        let victim = subjects[Int.random(in: max(0, number - 40)...number, using: &random)].probe.operation
                        switch Int.random(in: 0..<16, using: &random) {
                        case 0: victim.cancel()
                        case 1..<5: victim.pause()
                        case 5..<10: victim.resume()
                        case 10: sched_yield()
                        default: break
                        }
                    }
                }
                threads.leave()
            }.start()
        }
        #expect(threads.wait(timeout: .now() + patience) == .success)
    }

    private func expect(_ outcome: [String], of subject: Subject) {
        let operation = subject.probe.operation
        #expect(outcome.count == 2 && outcome[1] == "completion", "\(outcome)")
        switch outcome[0] {
        case "success":
            if let stream = operation.outputStream as? ObstinateStream {
                #expect(stream.bytes == Self.body, "\(subject.kind): \(stream.bytes.count) bytes")
            } else if let sink = operation.core.withLock({ $0.place?.sink }) as? ProvisionalSink {
                #expect(sink.count == Self.size)
            } else if subject.kind != .pipe {
                #expect(operation.responseData == Self.body, "\(subject.kind): \(operation.responseData?.count ?? -1) bytes")
            }
        case Probe.cancelled[0]: #expect(operation.isCancelled)
        case "failure \(URLError.timedOut.rawValue)":
            #expect(subject.kind.mayHang && !operation.isCancelled, "\(subject.kind)")
        default: Issue.record("\(subject.kind) ended with \(outcome)")
        }
    }
}

/// An object that blocks until it is released.
private final class Blocker: Sendable {
    private let gate = DispatchSemaphore(value: 0)

    @Sendable func enter() {
        gate.wait()
        gate.signal()
    }

    @Sendable func letThrough() { gate.signal() }
}

/// A user's stream that blocks in one of its methods until it is released, and is slow in the others.
private final class ObstinateStream: OutputStream, RewindableOutputStream {
    enum Place {
        case nowhere, open, write, close
        static let blocking = [Place.open, .write, .close]
    }

    private let state = Guarded((bytes: Data(), status: Stream.Status.notOpen))
    private let place: Place
    private let blocker: Blocker

    init(_ place: Place, _ blocker: Blocker) {
        (self.place, self.blocker) = (place, blocker)
        super.init(toMemory: ())
    }

    /// Required by Foundation.
    required init(toMemory: ()) {
        (place, blocker) = (.nowhere, Blocker())
        super.init(toMemory: ())
    }

    var bytes: Data { state.withLock { $0.bytes } }

    private func come(to place: Place) {
        if place == self.place { blocker.enter() } else { sched_yield() }
    }

    override var streamStatus: Stream.Status { state.withLock { $0.status } }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }

    override func open() {
        come(to: .open)
        state.withLock { $0.status = .open }
    }

    override func close() {
        come(to: .close)
        state.withLock { $0.status = .closed }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        come(to: .write)
        state.withLock { $0.bytes.append(buffer, count: length) }
        return length
    }

    func rewind() { state.withLock { $0.bytes = Data() } }
}

/// A pipe that is not read: a write blocks in the kernel once the buffer is full, until the reader closes its end.
private final class DeafPipe: Sendable {
    private let ends: [Int32]

    init() {
        var ends: [Int32] = [-1, -1]
        _ = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
        var size: Int32 = 4096
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        self.ends = ends
    }

    deinit { for end in ends where end >= 0 { close(end) } }

    @Sendable func hangUp() { shutdown(ends[1], Int32(SHUT_RDWR)) }

    func write(_ buffer: UnsafePointer<UInt8>, _ length: Int) -> Int { send(ends[0], buffer, length, Int32(MSG_NOSIGNAL)) }
}

private final class DeafStream: OutputStream {
    private let pipe: DeafPipe
    private let status = Guarded(Stream.Status.notOpen)

    init(_ pipe: DeafPipe) {
        self.pipe = pipe
        super.init(toMemory: ())
    }

    /// Required by Foundation.
    required init(toMemory: ()) {
        pipe = DeafPipe()
        super.init(toMemory: ())
    }

    override var streamStatus: Stream.Status { status.withLock { $0 } }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }
    override func open() { status.withLock { $0 = .open } }
    override func close() { status.withLock { $0 = .closed } }
    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int { pipe.write(buffer, length) }
}
