import ConvoySharedQueue
import Foundation

/// The state of a whole queue at one moment.
struct QueueOverview: Sendable {
    var counts: [WorkState: Int] = [:]
    var countsByHost: [String: [WorkState: Int]] = [:]
    var hosts: [SharedQueue.Host] = []
    var tagLimits: [String: HostLimits] = [:]
    var workers: [SharedQueue.Worker] = []
    /// The times for which entries have been ready, in seconds, by host.
    var readyAges: [String: TimeInterval] = [:]
    var durations: [String: RequestDurations] = [:]
    var isPaused = false

    /// The time for which the oldest ready entry has been ready, in seconds; nil if no entry is ready.
    var oldestReadyAge: TimeInterval? { readyAges.values.max() }

    init() {}

    /// Reads the state of a queue.
    ///
    /// - Parameter filter: The entries that ``counts`` counts.
    init(_ queue: SharedQueue, _ filter: SharedQueue.Filter = SharedQueue.Filter()) async throws(SharedQueueError) {
        counts = try await queue.counts(filter)
        countsByHost = try await queue.countsByHost()
        hosts = try await queue.hosts()
        tagLimits = try await queue.tagLimits()
        workers = try await queue.workers()
        readyAges = try await queue.readyAges()
        durations = try await queue.durations()
        isPaused = try await queue.isPaused()
    }

    /// The hosts whose entries have been ready for the longest time, at most 100.
    var oldestHosts: [(host: String, age: TimeInterval)] {
        readyAges.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }.prefix(100)
            .map { (host: $0.key, age: $0.value) }
    }

    /// The hosts with entries or limits, sorted by their numbers of entries in descending order.
    var hostRows: [(name: String, counts: [WorkState: Int], host: SharedQueue.Host?)] {
        let known = Dictionary(hosts.map { ($0.name, $0) }) { $1 }
        let names = Set(countsByHost.keys).union(known.keys).union(durations.keys.filter { !$0.isEmpty })
        return names.map { ($0, countsByHost[$0] ?? [:], known[$0]) }.sorted { one, other in
            let (first, second) = (one.counts.values.reduce(0, +), other.counts.values.reduce(0, +))
            return first != second ? first > second : one.name < other.name
        }
    }
}

/// Functions that describe queues and entries for people.
enum QueueText {
    static func tag(_ tag: String) -> String { tag.isEmpty ? "no tag" : "tag \(tag)" }

    static func limits(_ limits: HostLimits) -> String {
        var parts: [String] = []
        if let jobs = limits.maximumConcurrentRequests { parts.append("\(jobs) concurrent") }
        if let rate = limits.requestsPerSecond { parts.append("\(number(rate)) per second") }
        if let share = limits.retryShare { parts.append("\(number(share)) retries per first attempt") }
        return parts.isEmpty ? "no limits of its own" : parts.joined(separator: ", ")
    }

    static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
    }

    static func count(_ number: Int) -> String { number == 1 ? "1 entry" : "\(number) entries" }

    /// Returns a duration: "12 ms", "1.5 s", "5 min".
    static func duration(_ seconds: TimeInterval) -> String {
        switch seconds {
        case ..<0.9995: "\(Int((seconds * 1000).rounded())) ms"
        case ..<99.95: String(format: "%.1f s", seconds)
        default: age(Date(timeIntervalSince1970: 0), Date(timeIntervalSince1970: seconds))
        }
    }

    /// Returns the mean duration of requests, and a bound of most of them; nil without requests.
    static func durations(_ durations: RequestDurations?) -> String? {
        guard let durations, let mean = durations.mean else { return nil }
        let bound = durations.bound(ofShare: 0.95).map { ", 95% below \(duration($0))" } ?? ""
        return "mean \(duration(mean))\(bound)"
    }

    /// Returns how long ago a date was: "12 s", "5 min", "3 h", "4 d". A future date is negative.
    static func age(_ date: Date, _ now: Date) -> String {
        let seconds = now.timeIntervalSince(date)
        let size = abs(seconds)
        let sign = seconds < 0 ? "-" : ""
        return switch size {
        case ..<100: "\(sign)\(Int(size)) s"
        case ..<10_800: "\(sign)\(Int(size / 60)) min"
        case ..<172_800: "\(sign)\(Int(size / 3600)) h"
        default: "\(sign)\(Int(min(size, 1e12) / 86_400)) d"
        }
    }

    /// Returns details of an entry in addition to its request: its error, its result, or the reason why it waits.
    static func remark(_ entry: SharedQueue.Entry, _ now: Date) -> String {
        var parts: [String] = []
        switch entry.state {
        case .waiting, .retrying: parts.append("due in \(age(now, entry.notBefore))")
        default: break
        }
        if let error = entry.errorDescription, entry.state != .done || entry.statusCode == nil {
            parts.append(error)
        } else if let status = entry.statusCode {
            parts.append("status \(status)")
        }
        if entry.state == .done, let size = entry.size { parts.append(Amounts.bytes(size)) }
        if entry.attempts > 1 || entry.state == .retrying || entry.state == .failed {
            parts.append("attempt \(entry.attempts) of \(entry.maximumAttempts)")
        }
        return parts.joined(separator: ", ")
    }
}
