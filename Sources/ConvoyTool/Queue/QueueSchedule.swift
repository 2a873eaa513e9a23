import ConvoySharedQueue
import Foundation

/// `convoy queue schedule`: adds, lists and removes periodic requests.
enum QueueSchedule {
    static func run(_ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter) throws(ToolError) -> ExitStatus {
        let words = Array(options.arguments.dropFirst(2))
        let action = options.arguments.dropFirst().first
        let isOfRequest = { (option: ToolOption) in option.topic == .entries || option.topic == .times }
        if action != "add", let option = options.given.first(where: { isOfRequest($0.option) })?.option {
            throw options.usage("queue schedule \(action ?? "") has no --\(option.name)")
        }
        switch action {
        case "add": return try add(words, options, queue, printer)
        case "list" where words.isEmpty: return try list(options, queue, printer)
        case "remove" where !words.isEmpty: return try remove(words, options, queue, printer)
        case "list": throw options.usage("unexpected argument '\(Printable.line(words[0]))'")
        case "remove": throw options.usage("no name given")
        default: throw options.usage("queue schedule takes add, list or remove")
        }
    }

    private static func add(
        _ words: [String], _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        guard words.count == 2 else { throw options.usage("queue schedule add takes a NAME and a URL") }
        let name = words[0], recurrence = try recurrence(options)
        let missed = try options.choice("missed").flatMap { SharedQueue.MissedOccurrences(rawValue: $0) } ?? .once
        let request = try QueueRequestParts(options).request(words[1])
        QueueAdd.warn(options, printer.display)
        try QueueCall.connect(queue, printer.display, options, makes: true)
        let schedule = try QueueCall.result {
            try await queue.schedule(name, recurrence, missed: missed, request: request)
            return try await queue.schedules().first { $0.name == name }
        }
        if let schedule { printer.print(schedule) }
        return .success
    }

    private static func recurrence(_ options: Options) throws(ToolError) -> SharedQueue.Recurrence {
        switch (options.value("cron"), options.value("every")) {
        case (let text?, nil):
            let expression = try QueueCall.mapping { () throws(SharedQueueError) in try CronExpression(text) }
            guard let name = options.value("time-zone") else { return .cron(expression, in: .current) }
            guard let zone = TimeZone(identifier: name) else {
                throw options.usage("unknown --time-zone '\(Printable.line(name))': use a name such as Europe/Berlin")
            }
            return .cron(expression, in: zone)
        case (nil, let text?):
            guard let seconds = QueueTime.seconds(text), seconds >= 1, !options.has("time-zone") else {
                throw options.usage(
                    options.has("time-zone")
                        ? "--time-zone requires --cron" : "--every takes a time of at least one second: 90, 10m, 2h or 7d")
            }
            return .every(seconds)
        default: throw options.usage("queue schedule add needs either --cron or --every")
        }
    }

    private static func list(
        _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        try QueueCall.connect(queue, printer.display, options)
        for schedule in try QueueCall.result({ try await queue.schedules() }) { printer.print(schedule) }
        return .success
    }

    private static func remove(
        _ names: [String], _ options: Options, _ queue: SharedQueue, _ printer: QueuePrinter
    ) throws(ToolError) -> ExitStatus {
        try QueueCall.connect(queue, printer.display, options)
        var status = ExitStatus.success
        for name in names {
            guard try !QueueCall.result({ try await queue.unschedule(name) }) else { continue }
            printer.display.complain("there is no schedule \(Printable.line(name))")
            status = .failure
        }
        return status
    }
}

extension QueuePrinter {
    /// Prints a schedule.
    func print(_ schedule: SharedQueue.Schedule) {
        var line = JSONLine(), times: String
        line.add("name", schedule.name)
        switch schedule.recurrence {
        case .cron(let expression, let zone):
            line.add("cron", expression.text)
            line.add("timeZone", zone.identifier)
            times = "\(expression.text) in \(zone.identifier)"
        case .every(let seconds):
            line.add("every", seconds)
            times = "every \(QueueText.number(seconds)) s"
        }
        line.add("missed", schedule.missed.rawValue)
        line.add("method", schedule.method)
        line.add("url", schedule.url)
        line.add("tag", schedule.tag)
        line.add("next", QueueTime.text(schedule.next))
        line.add("last", schedule.last.map(QueueTime.text))
        if printsJSON { return display.emit(line.text) }
        let tag = schedule.tag.map { " [\($0)]" } ?? ""
        display.say(
            Printable.line(
                "\(schedule.name): \(schedule.method) \(schedule.url)\(tag), \(times), next "
                    + QueueTime.text(schedule.next)))
    }
}
