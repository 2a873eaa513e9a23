import CLimit
import Convoy
import Foundation
import FoundationNetworking
import Synchronization

extension Case {
    /// The time until a transfer stops and resumes.
    static let pause = Case(
        name: "pause", summary: "a running download, paused and resumed, into a stream that records times",
        trials: [
            Trial(
                name: "pause", unit: "ms", limit: nil,
                subjects: [Subject(Trial.convoy) { try PauseRun($0).run().pauses }]),
            Trial(
                name: "resume", unit: "ms", limit: nil,
                subjects: [Subject(Trial.convoy) { try PauseRun($0).run().resumes }]),
        ], bars: [], needsLargeFile: true)
}

/// Pauses and resumes one download many times.
private struct PauseRun {
    let context: Context
    let cycles: Int
    let bytesOfFlow: Int64 = 4 << 20

    init(_ context: Context) {
        self.context = context
        cycles = context.isQuick ? 3 : 40
    }

    func run() throws -> (pauses: Sample, resumes: Sample) {
        let stamps = WriteStamps()
        let manager = HTTPRequestOperationManager(baseURL: context.url)
        manager.completionQueue = DispatchQueue(label: "bench.completion")
        manager.responseSerializer = HTTPResponseSerializer()
        let operation = try manager.makeOperation(.get, "large")
        operation.outputStream = StampingStream(stamps)
        manager.enqueue(operation)
        var pauses: [Double] = [], resumes: [Double] = []
        for _ in 0..<cycles {
            let before = stamps.bytes.load(ordering: .acquiring)
            try wait("bytes", of: operation) { stamps.bytes.load(ordering: .acquiring) > before + bytesOfFlow }
            let paused = limit_nanoseconds()
            operation.pause()
            usleep(30_000)
            let last = stamps.last.load(ordering: .acquiring)
            pauses.append(last > paused ? Double(last - paused) / 1e6 : 0)
            stamps.first.store(0, ordering: .releasing)
            let resumed = limit_nanoseconds()
            operation.resume()
            try wait("the first byte after resume", of: operation) { stamps.first.load(ordering: .acquiring) != 0 }
            resumes.append(Double(stamps.first.load(ordering: .acquiring) - resumed) / 1e6)
        }
        operation.cancel()
        return (sample(pauses), sample(resumes))
    }

    private func wait(
        _ what: String, of operation: HTTPRequestOperation, until condition: () -> Bool
    ) throws {
        let deadline = limit_nanoseconds() + 10_000_000_000
        while !condition() {
            guard limit_nanoseconds() < deadline else {
                throw BenchError(
                    "timed out waiting for \(what): \(operation), \(operation.error.map { "\($0)" } ?? "no error")")
            }
            usleep(100)
        }
    }

    private func sample(_ values: [Double]) -> Sample {
        Sample(values.median ?? 0, details: ["longest": values.max() ?? 0])
    }
}

/// The times at which bytes were written, on the monotonic clock.
private final class WriteStamps: Sendable {
    let bytes = Atomic<Int64>(0)
    let last = Atomic<UInt64>(0)
    /// The time of the first write since the value was set to 0.
    let first = Atomic<UInt64>(0)

    func note(_ count: Int) {
        let now = limit_nanoseconds()
        last.store(now, ordering: .releasing)
        _ = first.compareExchange(expected: 0, desired: now, ordering: .acquiringAndReleasing)
        bytes.wrappingAdd(Int64(count), ordering: .acquiringAndReleasing)
    }
}

/// A stream that discards the bytes and records their arrival times.
private final class StampingStream: OutputStream, RewindableOutputStream {
    private let stamps: WriteStamps
    private var status = Stream.Status.notOpen

    init(_ stamps: WriteStamps) {
        self.stamps = stamps
        super.init(toMemory: ())
    }

    required init(toMemory: ()) {
        stamps = WriteStamps()
        super.init(toMemory: ())
    }

    override var streamStatus: Stream.Status { status }
    override var hasSpaceAvailable: Bool { true }
    override func open() { status = .open }
    override func close() { status = .closed }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        stamps.note(length)
        return length
    }

    func rewind() throws {}
}
