import Convoy
import ConvoySharedQueue
import ConvoySupport
import Foundation

/// `convoy queue`: adds requests to a shared queue, inspects it, and changes it.
enum QueueCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        let action = try QueueAction(options)
        let display = try Display(options, printsBodies: false)
        let queue = SharedQueue(store: try QueueStore.store(options))
        let printer = QueuePrinter(display: display, printsJSON: options.has("json"))
        switch action {
        case .add: return try QueueAdd.run(options, queue, printer)
        case .list: return try list(options, queue, printer)
        case .show: return try show(options, queue, printer)
        case .stats: return try stats(options, queue, printer)
        case .wait: return try QueueWait.run(options, queue, printer)
        case .retry, .cancel, .pause, .resume, .reschedule, .purge: return try change(action, options, queue, printer)
        case .limit: return try QueueLimit.run(options, queue, printer)
        case .schedule: return try QueueSchedule.run(options, queue, printer)
        case .serve: return try QueueServe.run(options, queue, display)
        }
    }

    private static func list(
        _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        let filter = try QueueFilter.filter(options, changes: false)
        let limit = try options.integer("limit", in: 1...10_000) ?? 100
        let place = try options.integer("behind", in: 0...Int.max).map(Int64.init)
        let isNewest = options.has("newest")
        try QueueCall.connect(queue, printer.display, options)
        let entries = try QueueCall.result {
            try await queue.entries(filter, behind: place, newestFirst: isNewest, limit: limit)
        }
        for entry in entries { printer.print(entry) }
        if entries.count == limit, let last = entries.last {
            printer.display.say("For more entries: --behind \(last.sequence)")
        }
        return .success
    }

    private static func show(
        _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        let ids = try QueueFilter.ids(options.arguments.dropFirst(), options)
        guard !ids.isEmpty else { throw options.usage("no entry ID given") }
        try QueueCall.connect(queue, printer.display, options)
        for (index, id) in ids.enumerated() {
            if index > 0 { printer.display.say("") }
            let all = try QueueCall.result {
                (
                    entry: try await queue.entry(id), edges: try await queue.dependencies(of: id),
                    result: try await queue.result(of: id)
                )
            }
            printer.print(all.entry, dependencies: all.edges.dependencies, dependents: all.edges.dependents, all.result)
        }
        return .success
    }

    private static func stats(
        _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        let filter = try QueueFilter.filter(options, changes: false)
        try QueueCall.connect(queue, printer.display, options)
        printer.print(try QueueCall.result { try await QueueOverview(queue, filter) })
        return .success
    }

    private static func change(
        _ action: QueueAction, _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        let filter = try QueueFilter.filter(options, changes: true)
        let hasFilter = filter != SharedQueue.Filter() || options.has("all") || options.has("older-than")
        let age = try QueueTime.seconds("older-than", options), time = try QueueTime.date("not-before", options)
        if action == .reschedule, time == nil { throw options.usage("queue reschedule needs --not-before") }
        if !hasFilter, action != .pause, action != .resume {
            throw options.usage("queue \(action.rawValue) needs an id, a filter or --all")
        }
        try QueueCall.connect(queue, printer.display, options)
        let count: Int? = try QueueCall.result {
            switch action {
            case .retry: return try await queue.retry(filter)
            case .cancel: return try await queue.cancel(filter)
            case .purge: return try await queue.purge(filter, olderThan: age ?? 0)
            case .reschedule: return try await queue.reschedule(filter, notBefore: time ?? Date())
            case .pause where hasFilter: return try await queue.pause(filter)
            case .resume where hasFilter: return try await queue.resume(filter)
            case .pause: try await queue.pause()
            default: try await queue.resume()
            }
            return nil
        }
        printer.print(changed: count, by: action)
        // The command fails if a named entry could not be changed.
        return filter.ids.map { Set($0).count > count ?? 0 } ?? false ? .failure : .success
    }
}

/// `convoy queue limit`: sets the limits of a host.
enum QueueLimit {
    static func run(_ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter) throws(ToolError) -> ExitStatus {
        let words = options.arguments.dropFirst(), tag = options.value("tag")
        guard words.count + (tag == nil ? 0 : 1) == 1 else {
            throw options.usage(
                words.isEmpty
                    ? "no host given; '*' sets the limits of all other hosts" : "only one host or --tag can be given")
        }
        let host = words.first ?? ""
        guard ["jobs", "rate", "retries"].contains(where: options.has) else {
            throw options.usage("no limit given: use --jobs, --rate or --retries")
        }
        let (jobs, rate) = (try number("jobs", options), try number("rate", options))
        let retries = try number("retries", options)
        if let jobs, let number = jobs, number < 1 || number != number.rounded() {
            throw options.usage("--jobs takes a whole number of at least 1, or none")
        }
        let name = try host == "*" || tag != nil ? nil : QueueFilter.host(host, options)
        if tag != nil, options.has("retries") { throw options.usage("--retries cannot be combined with --tag") }
        try QueueCall.connect(queue, printer.display, options, makes: true)
        let limits = try QueueCall.result {
            let change: @Sendable (inout HostLimits) -> Void = { limits in
                if let jobs { limits.maximumConcurrentRequests = jobs.map { Int($0) } }
                if let rate { limits.requestsPerSecond = rate }
                if let retries { limits.retryShare = retries }
            }
            guard let tag else { return try await queue.changeLimits(host: name, change) }
            return try await queue.changeLimits(tag: tag, change)
        }
        let subject = tag.map { QueueText.tag($0) } ?? name ?? "all other hosts"
        printer.display.say("\(Printable.line(subject)): \(QueueText.limits(limits))")
        return .success
    }

    /// Returns the value of an option: nil if it is not given, and a nested nil for `none`.
    private static func number(_ name: String, _ options: Options) throws(ToolError) -> Double?? {
        guard let text = options.value(name) else { return nil }
        if text == "none" { return .some(nil) }
        guard let number = Double(text), number.isFinite, number >= 0, number <= 1e9 else {
            throw options.usage("--\(name) takes a number, or none")
        }
        return number
    }

    /// Sets the limits for all hosts that the options of `work` specify, and keeps all other limits.
    static func setForAll(_ options: Options, _ queue: SharedQueue) throws(ToolError) {
        let jobs = try options.integer("per-host", in: 1...100_000)
        let rate = try options.value("per-second").map { text throws(ToolError) in
            guard let rate = Double(text), rate.isFinite, rate > 0, rate <= 1e9 else {
                throw options.usage("--per-second takes a number of requests")
            }
            return rate
        }
        guard jobs != nil || rate != nil else { return }
        _ = try QueueCall.result {
            try await queue.changeLimits { limits in
                if let jobs { limits.maximumConcurrentRequests = jobs }
                if let rate { limits.requestsPerSecond = rate }
            }
        }
    }
}
