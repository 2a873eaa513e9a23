import ConvoySharedQueue
import Foundation

/// A printer for the results of `convoy queue`, as lines for people or for programs.
struct QueuePrinter: Sendable {
    let display: Display
    let printsJSON: Bool

    // MARK: Entries

    func print(_ entry: SharedQueue.Entry) {
        if printsJSON { return display.emit(json(entry).text) }
        let remark = QueueText.remark(entry, Date())
        let state = entry.state.rawValue.padding(toLength: 9, withPad: " ", startingAt: 0)
        let tag = entry.tag.map { " [\($0)]" } ?? ""
        display.say(
            Printable.line(
                "\(entry.id.text) \(state) \(entry.method) \(entry.url)\(tag)\(remark.isEmpty ? "" : ": \(remark)")"))
    }

    private func json(_ entry: SharedQueue.Entry) -> JSONLine {
        var line = JSONLine()
        line.add("id", entry.id.text)
        line.add("sequence", entry.sequence)
        line.add("kind", "\(entry.kind)")
        line.add("state", entry.state.rawValue)
        line.add("method", entry.method)
        line.add("url", entry.url)
        line.add("host", entry.host)
        line.add("tag", entry.tag)
        line.add("group", entry.group)
        line.add("uniqueKey", entry.uniqueKey)
        line.add("priority", Int64(entry.priority))
        line.add("attempts", Int64(entry.attempts))
        line.add("maximumAttempts", Int64(entry.maximumAttempts))
        line.add("notBefore", QueueTime.text(entry.notBefore))
        line.add("deadline", entry.deadline.map(QueueTime.text))
        line.add("worker", entry.worker?.text)
        line.add("status", entry.statusCode.map(Int64.init))
        line.add("bytes", entry.size)
        line.add("error", entry.errorDescription)
        line.add("enqueued", QueueTime.text(entry.enqueuedAt))
        line.add("changed", QueueTime.text(entry.changedAt))
        return line
    }

    /// Prints the details of an entry.
    func print(
        _ entry: SharedQueue.Entry, dependencies: [UUID], dependents: [UUID], _ result: SharedQueue.Response?
    ) {
        if printsJSON {
            var line = json(entry)
            line.add("dependencies", dependencies.map(\.text).joined(separator: " "))
            line.add("dependents", dependents.map(\.text).joined(separator: " "))
            line.add("header", result?.header)
            line.add("digest", result?.digest)
            line.add("place", result?.place)
            line.add("body", result?.body.map { String(decoding: $0, as: UTF8.self) })
            return display.emit(line.text)
        }
        for row in Self.rows(of: entry, dependencies: dependencies, dependents: dependents, result) {
            let name = "\(row.name):".padding(toLength: 14, withPad: " ", startingAt: 0)
            display.say(Printable.line("\(name)\(row.value)"))
        }
        if let header = result?.header {
            display.say("")
            for line in header.split(separator: "\n") { display.say(Printable.line(String(line))) }
        }
        if let body = result?.body {
            display.say("")
            for line in String(decoding: body, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false) {
                display.say(Printable.line(String(line)))
            }
        }
    }

    /// Returns the details of an entry, for people.
    static func rows(
        of entry: SharedQueue.Entry, dependencies: [UUID], dependents: [UUID], _ result: SharedQueue.Response?
    ) -> [(name: String, value: String)] {
        let ids = { (ids: [UUID]) in ids.isEmpty ? nil : ids.map(\.text).joined(separator: " ") }
        let rows: [(String, String?)] = [
            ("id", entry.id.text), ("state", entry.state.rawValue), ("request", "\(entry.method) \(entry.url)"),
            ("kind", "\(entry.kind)"), ("tag", entry.tag), ("group", entry.group), ("unique key", entry.uniqueKey),
            ("priority", entry.priority == 0 ? nil : String(entry.priority)),
            ("attempts", "\(entry.attempts) of \(entry.maximumAttempts)"),
            ("error", entry.errorDescription), ("status", entry.statusCode.map { String($0) }),
            ("bytes", entry.size.map { String($0) }), ("worker", entry.worker?.text),
            ("enqueued", QueueTime.text(entry.enqueuedAt)), ("not before", QueueTime.text(entry.notBefore)),
            ("deadline", entry.deadline.map(QueueTime.text)), ("changed", QueueTime.text(entry.changedAt)),
            ("depends on", ids(dependencies)), ("needed by", ids(dependents)), ("digest", result?.digest),
            ("destination", result?.place),
        ]
        return rows.compactMap { name, value in value.map { (name, $0) } }
    }

    /// Prints the ID of an added entry, or of the existing entry with the same unique key.
    func print(added id: UUID, isNew: Bool) {
        guard printsJSON else { return display.say(id.text) }
        var line = JSONLine()
        line.add("id", id.text)
        line.add("isNew", isNew)
        display.emit(line.text)
    }

    // MARK: The queue

    /// Prints the number of entries that an action has changed; nil stands for the whole queue.
    func print(changed count: Int?, by action: QueueAction) {
        let done =
            switch action {
            case .retry: "scheduled for retry"
            case .cancel: "cancelled"
            case .pause: "paused"
            case .resume: "resumed"
            case .reschedule: "rescheduled"
            default: "removed"
            }
        if printsJSON {
            var line = JSONLine()
            line.add("action", action.rawValue)
            line.add("count", count.map(Int64.init))
            return display.emit(line.text)
        }
        display.say(count.map { "\(QueueText.count($0)) \(done)" } ?? "the queue is \(done)")
    }

    func print(_ overview: QueueOverview) {
        if printsJSON { return display.emit(json(overview).text) }
        if overview.isPaused { display.say("The queue is paused.") }
        show(overview.counts)
        if let age = overview.oldestReadyAge {
            display.say("The oldest ready entry has waited for \(QueueText.duration(age)).")
        }
        if !overview.hostRows.isEmpty { display.say("") }
        for row in overview.hostRows {
            let counts = WorkState.allCases.compactMap { state in row.counts[state].map { "\($0) \(state.rawValue)" } }
            var parts = counts.isEmpty ? [] : [counts.joined(separator: ", ")]
            if let host = row.host {
                if host.limits != HostLimits() { parts.append(QueueText.limits(host.limits)) }
                if let end = host.closedUntil { parts.append("no requests for \(QueueText.age(Date(), end))") }
            }
            if let durations = QueueText.durations(overview.durations[row.name]) { parts.append("duration \(durations)") }
            let name = row.name == "*" ? "all other hosts" : row.name
            display.say(Printable.line("\(name): \(parts.joined(separator: "; "))"))
        }
        if !overview.tagLimits.isEmpty { display.say("") }
        for (tag, limits) in overview.tagLimits.sorted(by: { $0.key < $1.key }) {
            display.say(Printable.line("\(QueueText.tag(tag)): \(QueueText.limits(limits))"))
        }
        if !overview.workers.isEmpty { display.say("") }
        for worker in overview.workers {
            display.say(
                Printable.line(
                    "worker \(worker.name): \(worker.leasedCount) leased, \(worker.jobs) concurrent, up for "
                        + QueueText.age(worker.startedAt, Date())))
        }
    }

    /// Prints the numbers of entries by state.
    func print(_ counts: [WorkState: Int]) {
        guard printsJSON else { return show(counts) }
        var line = JSONLine()
        line.add(counts)
        display.emit(line.text)
    }

    private func show(_ counts: [WorkState: Int]) {
        for state in WorkState.allCases {
            guard let count = counts[state], count > 0 else { continue }
            display.say("\(state.rawValue.padding(toLength: 10, withPad: " ", startingAt: 0))\(count)")
        }
        if counts.values.reduce(0, +) == 0 { display.say("no entries") }
    }

    private func json(_ overview: QueueOverview) -> JSONLine {
        var line = JSONLine()
        line.add("isPaused", overview.isPaused)
        line.add(overview.counts)
        if let age = overview.oldestReadyAge { line.add("oldestReadySeconds", age) }
        line.add(
            "hosts",
            overview.hostRows.map { row in
                var host = JSONLine()
                host.add("host", row.name)
                for state in WorkState.allCases {
                    if let count = row.counts[state] { host.add(state.rawValue, Int64(count)) }
                }
                host.add("jobs", row.host?.limits.maximumConcurrentRequests.map(Int64.init))
                host.add("rate", row.host?.limits.requestsPerSecond.map { QueueText.number($0) })
                if let age = overview.readyAges[row.name] { host.add("oldestReadySeconds", age) }
                if let durations = overview.durations[row.name], let mean = durations.mean {
                    host.add("requests", Int64(durations.count))
                    host.add("meanSeconds", mean)
                }
                host.add("closedUntil", row.host?.closedUntil.map(QueueTime.text))
                return host
            })
        line.add(
            "tags",
            overview.tagLimits.sorted { $0.key < $1.key }.map { tag, limits in
                var object = JSONLine()
                object.add("tag", tag)
                object.add("jobs", limits.maximumConcurrentRequests.map(Int64.init))
                object.add("rate", limits.requestsPerSecond.map { QueueText.number($0) })
                return object
            })
        line.add(
            "workers",
            overview.workers.map { worker in
                var object = JSONLine()
                object.add("id", worker.id.text)
                object.add("name", worker.name)
                object.add("jobs", Int64(worker.jobs))
                object.add("leased", Int64(worker.leasedCount))
                object.add("started", QueueTime.text(worker.startedAt))
                object.add("seen", QueueTime.text(worker.seenAt))
                return object
            })
        return line
    }
}

extension JSONLine {
    fileprivate mutating func add(_ counts: [WorkState: Int]) {
        for state in WorkState.allCases { add(state.rawValue, Int64(counts[state] ?? 0)) }
    }
}
