import ConvoySupport
import Foundation

/// Periodic entries. They are stored in the database, and workers enqueue them.
extension SharedQueue {
    /// A periodic entry.
    public struct Schedule: Sendable, Identifiable, Hashable {
        /// The name of the schedule.
        public let name: String
        /// The times at which entries are enqueued.
        public let recurrence: Recurrence
        /// The handling of occurrences during which no worker was running.
        public let missed: MissedOccurrences
        /// The method of the request.
        public let method: String
        /// The URL of the request, without secrets.
        public let url: String
        /// The tag of the entries, if any.
        public let tag: String?
        /// The time of the next entry.
        public let next: Date
        /// The time of the last entry; nil if there has not been any.
        public let last: Date?

        /// The name of the schedule.
        public var id: String { name }
    }

    /// Enqueues a request periodically, as long as workers are running. One of them enqueues each occurrence, exactly once.
    ///
    /// ```swift
    /// let report = SharedRequest(OutboxRequest(request))
    /// let morning = SharedQueue.Recurrence.cron(try CronExpression("0 7 * * mon-fri"), in: zone)
    /// try await queue.schedule("report", morning, request: report)
    /// ```
    ///
    /// Replaces the schedule with the same name. If it has the same times, its next occurrence does not change, so that a
    /// program may schedule its requests whenever it starts. Each occurrence is a separate entry with its own identifier
    /// and `Idempotency-Key`. If the request has a unique key, an occurrence is omitted while an entry has that key.
    ///
    /// The times follow the clock of the PostgreSQL server, or with SQLite the clock of the machine. If that clock is set
    /// back, times that have already occurred do not occur again.
    ///
    /// - Parameters:
    ///   - name: The name of the schedule, at most 800 bytes, without control characters.
    ///   - recurrence: The times.
    ///   - missed: The handling of occurrences during which no worker was running.
    ///   - request: The request. It has no dependencies and no start time. The time from now until its deadline applies to
    ///     each occurrence.
    /// - Throws: ``SharedQueueError``.
    public func schedule(
        _ name: String, _ recurrence: Recurrence, missed: MissedOccurrences = .once, request: SharedRequest
    ) async throws(SharedQueueError) {
        guard !name.isEmpty else { throw .invalidSchedule("The name of the schedule is empty.") }
        guard request.dependencies.isEmpty, request.notBefore == nil else {
            throw .invalidSchedule("A periodic request cannot have dependencies or a start time.")
        }
        if case .every(let seconds) = recurrence, !(1...1e9).contains(seconds) {
            throw .invalidSchedule("The interval must be at least one second.")
        }
        let name = try SharedRequest.name(name, "name")
        let item = try request.item(SecretClassifier(fields: sensitiveHeaders))
        try await thread.perform { store throws(SharedQueueError) in
            try store.schedule(name, recurrence, missed, item)
        }
    }

    /// Returns the schedules, sorted by name, at most 10,000.
    public func schedules() async throws(SharedQueueError) -> [Schedule] {
        try await thread.perform { store throws(SharedQueueError) in try store.schedules() }.map { schedule in
            Schedule(
                name: schedule.name, recurrence: schedule.recurrence, missed: schedule.missed,
                method: schedule.template.method, url: Redaction.url(schedule.template.url),
                tag: schedule.template.tag.isEmpty ? nil : schedule.template.tag, next: Date(microseconds: schedule.next),
                last: schedule.last.map(Date.init(microseconds:)))
        }
    }

    /// Removes a schedule. Entries that were already enqueued remain.
    ///
    /// - Returns: False if there is no schedule with that name.
    @discardableResult
    public func unschedule(_ name: String) async throws(SharedQueueError) -> Bool {
        try await thread.perform { store throws(SharedQueueError) in try store.unschedule(name) }
    }
}
