import CLimit
import Convoy
import Foundation
import FoundationNetworking
import Synchronization

extension Case {
    /// Event streams: one that is sent event by event, and one that is sent as fast as it is read.
    static let events: Case = {
        let (live, stored) = (EventStreamCase(path: "live"), EventStreamCase(path: "stored"))
        return Case(
            name: "events", summary: "1,000,000 server-sent events of 101 bytes by an EventSource, with a handler",
            trials: [live.trial, stored.trial],
            bars: [
                .atLeast(0.5, "of the rate of a C loop that only reads") { $0.ratio("events-live") },
                .atLeast(0.5, "of that rate, with 64 KiB of events per write") { $0.ratio("events-stored") },
                .atMost(8, "MiB of growth of resident memory") { $0.detail("grown MiB", "events-live") },
                .atMost(8, "MiB of growth, with 64 KiB per write") { $0.detail("grown MiB", "events-stored") },
            ])
    }()
}

private struct EventStreamCase: Sendable {
    let path: String

    var trial: Trial {
        Trial(
            name: "events-\(path)", unit: "events/s", limit: Trial.cLoop,
            subjects: [
                Subject(Trial.cLoop) { try read($0) },
                Subject(Trial.convoy) { try receive($0, inLoop: false) },
                Subject("convoy-loop") { try receive($0, inLoop: true) },
            ])
    }

    private func count(_ context: Context) -> Int { context.count(1_000_000) }

    private func read(_ context: Context) throws -> Sample {
        let count = count(context)
        let url = context.eventsURL.appendingPathComponent("\(path)/\(count)").absoluteString
        var result = limit_result()
        let code = url.withCString { url in
            var plan = limit_plan()
            (plan.url, plan.requests, plan.in_flight) = (url, 1, 1)
            plan.expected_bytes = limit_event_length() * count
            return limit_requests(&plan, &result)
        }
        guard code == 0 else { throw BenchError("cannot set up the C loop") }
        try BenchError.check(failed: result.failed, of: 1)
        return .rate(count, Cost(seconds: result.seconds, cpuSeconds: result.cpu_seconds))
    }

    private func receive(_ context: Context, inLoop isLoop: Bool) throws -> Sample {
        // Create objects with one-time cost before the measurement.
        try receive(1_000, context, inLoop: isLoop)
        let count = count(context)
        limit_reset_peak()
        let before = limit_memory("VmRSS")
        let cost = try Cost { try receive(count, context, inLoop: isLoop) }
        var sample = Sample.rate(count, cost)
        sample.details["grown MiB"] = Double(limit_memory("VmHWM") - before) / 1024
        return sample
    }

    /// Receives events and accesses the bytes of each.
    private func receive(_ count: Int, _ context: Context, inLoop isLoop: Bool) throws {
        let source = EventSource(url: context.eventsURL.appendingPathComponent("\(path)/\(count)"))
        source.completionQueue = DispatchQueue(label: "bench.completion")
        source.retryInterval = 0
        let countdown = Countdown(isLoop ? 2 : 1)
        source.setCompletionHandler { _, _ in
            countdown.done()
        } failure: { _, error in
            Report.note("\(error)")
            countdown.done(false)
        }
        let numbers = Numbers()
        if isLoop {
            let events = source.events
            Task {
                for try await event in events { numbers.add(event) }
                countdown.done()
            }
        } else {
            source.eventHandler = { _, event in numbers.add(event) }
        }
        source.start()
        try BenchError.check(failed: countdown.wait(), of: 1)
        guard numbers.count == count, numbers.bytes == count * Numbers.dataLength else {
            throw BenchError("\(numbers.count) events of \(count), with \(numbers.bytes) bytes")
        }
    }
}

/// Counts events and the bytes of their data. Not used concurrently.
private final class Numbers: Sendable {
    static let dataLength = #"{"symbol":"ACME","number":00000000,"price":1234.50,"currency":"EUR"}"#.utf8.count
    private let counted = Atomic(0)
    private let summed = Atomic(0)
    var count: Int { counted.load(ordering: .relaxed) }
    var bytes: Int { summed.load(ordering: .relaxed) }

    func add(_ event: ServerSentEvent) {
        counted.wrappingAdd(1, ordering: .relaxed)
        summed.wrappingAdd(event.data.utf8.count, ordering: .relaxed)
    }
}
