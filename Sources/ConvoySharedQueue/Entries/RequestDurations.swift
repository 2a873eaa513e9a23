import Foundation

/// The durations of the requests to a host, as a histogram.
///
/// Workers add the durations of completed attempts, successful or not, a few seconds after they have ended. The time for
/// which an entry waits in the queue is not included.
public struct RequestDurations: Sendable, Hashable {
    /// The upper bounds of the ranges, in seconds. The last range has no bound.
    public static let bounds: [TimeInterval] = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

    /// The numbers of requests by range. There is one more range than ``bounds``.
    public internal(set) var counts = [Int](repeating: 0, count: bounds.count + 1)
    /// The sum of the durations, in seconds.
    public internal(set) var total: TimeInterval = 0

    /// The number of requests.
    public var count: Int { counts.reduce(0, +) }
    /// The mean duration, in seconds; nil without requests.
    public var mean: TimeInterval? { count > 0 ? total / Double(count) : nil }

    /// Returns the bound below which at least the given share of the durations is; nil without requests, and if they
    /// are longer than the last bound.
    ///
    /// - Parameter share: The share, from 0 to 1.
    public func bound(ofShare share: Double) -> TimeInterval? {
        let needed = share * Double(count)
        var sum = 0
        for (bound, count) in zip(Self.bounds, counts) {
            sum += count
            if sum > 0, Double(sum) >= needed { return bound }
        }
        return nil
    }

    mutating func add(_ seconds: TimeInterval) {
        let seconds = seconds > 0 ? min(seconds, 1e9) : 0
        counts[Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count] += 1
        total += seconds
    }
}

/// Durations by host that have not been stored yet. A pure value of limited size.
package struct HostDurations: Sendable, Equatable {
    /// The name under which the durations of hosts beyond the limit are counted.
    package static let otherHosts = ""
    /// The maximum number of hosts here, and in the database.
    static let (longest, mostStored) = (1000, 100)

    package var hosts: [String: RequestDurations] = [:]

    package init() {}

    package mutating func add(_ seconds: TimeInterval, host: String) {
        let isNew = hosts[host] == nil
        hosts[isNew && hosts.count >= Self.longest ? Self.otherHosts : host, default: .init()].add(seconds)
    }

    /// Adds the durations of other hosts.
    mutating func merge(_ other: HostDurations) {
        for (host, durations) in other.hosts {
            var sum = hosts[host] ?? .init()
            for index in durations.counts.indices { sum.counts[index] += durations.counts[index] }
            sum.total += durations.total
            hosts[host] = sum
        }
    }
}
