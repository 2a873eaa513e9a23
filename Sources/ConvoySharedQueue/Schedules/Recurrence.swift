import Foundation

extension SharedQueue {
    /// The times at which a periodic entry is enqueued.
    public enum Recurrence: Sendable, Hashable {
        /// The local times in a time zone that match an expression.
        case cron(CronExpression, in: TimeZone)
        /// Every given number of seconds, at least one, beginning one interval after scheduling.
        case every(TimeInterval)
    }

    /// The handling of occurrences during which no worker was running.
    public enum MissedOccurrences: String, Sendable, Hashable, CaseIterable {
        /// They are not enqueued. An occurrence is missed if no worker enqueues it within a minute.
        case skip
        /// The last one is enqueued.
        case once
        /// All of them are enqueued.
        case all
    }
}

/// Times are in microseconds since 1970.
extension SharedQueue.Recurrence {
    /// The time after which an occurrence counts as missed.
    private static let tolerance: Int64 = 60_000_000
    /// The maximum number of occurrences to enqueue at once.
    private static let mostAtOnce = 1000
    private static let second: Int64 = 1_000_000

    /// The interval.
    static func microseconds(_ seconds: TimeInterval) -> Int64 {
        max(second, SharedRequest.microseconds(seconds))
    }

    /// Returns the first occurrence after a time; `Int64.max` if there is none.
    ///
    /// - Parameter known: An occurrence from which intervals are counted.
    func next(after time: Int64, known: Int64) -> Int64 {
        switch self {
        case .cron(let expression, let zone):
            let (whole, rest) = time.quotientAndRemainder(dividingBy: Self.second)
            let next = expression.next(after: rest < 0 ? whole - 1 : whole, in: zone)
            return next.map { $0 * Self.second } ?? .max
        case .every(let seconds):
            let interval = Self.microseconds(seconds)
            guard time >= known else { return known }
            let passed = time.subtractingReportingOverflow(known)
            let (count, overflow) = (passed.partialValue / interval + 1).multipliedReportingOverflow(by: interval)
            let (next, tooLate) = known.addingReportingOverflow(count)
            return overflow || tooLate || passed.overflow ? .max : next
        }
    }

    /// Returns the occurrences to enqueue, and the next one.
    ///
    /// - Parameter first: The first occurrence that has not been handled.
    func due(
        from first: Int64, now: Int64, missed: SharedQueue.MissedOccurrences
    ) -> (occurrences: [Int64], next: Int64) {
        guard first <= now else { return ([], first) }
        guard missed != .all else {
            var (occurrences, next) = ([first], next(after: first, known: first))
            while next <= now, occurrences.count < Self.mostAtOnce {
                occurrences.append(next)
                next = self.next(after: next, known: first)
            }
            return (occurrences, next)
        }
        let last = last(from: first, now: now)
        let isMissed = now.subtractingReportingOverflow(last).partialValue > Self.tolerance
        return (isMissed && missed == .skip ? [] : [last], next(after: last, known: first))
    }

    /// Returns the last occurrence that is not later than a time. Does not visit all of them.
    private func last(from first: Int64, now: Int64) -> Int64 {
        var last = first
        for hours: Int64 in [1, 24, 24 * 32] {
            let (start, overflow) = now.subtractingReportingOverflow(hours * 3600 * Self.second)
            let next = next(after: start, known: first)
            guard !overflow, next <= now else { continue }
            last = max(last, next)
            break
        }
        while case let next = next(after: last, known: first), next <= now, next > last { last = next }
        return last
    }
}
