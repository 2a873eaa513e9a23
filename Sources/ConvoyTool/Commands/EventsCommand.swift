import Convoy
import ConvoySupport
import Dispatch
import Foundation

/// `convoy events`: prints the events of a stream as they arrive.
enum EventsCommand {
    static func run(_ options: Options) throws(ToolError) -> ExitStatus {
        guard let text = options.arguments.first, options.arguments.count == 1 else {
            throw options.usage(options.arguments.isEmpty ? "no URL" : "more than one URL")
        }
        let display = try Display(options, printsBodies: false)
        let url = try DownloadURL.parse(text)
        let source = try makeSource(url, options)
        let printer = EventPrinter(
            display, types: options.all("type"), printsJSON: options.has("json"),
            limit: try options.integer("count", in: 1...Int.max))
        // This step comes last, because it may prompt for a password and a passphrase.
        let settings = try TransferSettings(options, for: url, display)
        let (speed, trust) = (settings.speed, settings.trust)
        try settings.apply(to: source, url, ConnectionConfiguration(), number: 1, heard: { _ in })
        source.totalTimeout = speed.maximumTime
        if let warning = trust.warning { display.complain(warning) }
        if !options.has("quiet") { source.reconnectHandler = { display.remark("convoy: \(EventText.line($1))") } }

        let status = print(source, printer, display)
        settings.trace.finish()
        return settings.finish(status, display)
    }

    private static func makeSource(_ url: URL, _ options: Options) throws(ToolError) -> EventSource {
        let source = EventSource(request: try Headers(options).request(for: url))
        if let seconds = try options.seconds("read-timeout"), seconds > 0 { source.readTimeout = seconds }
        if let id = options.value("last-id") {
            guard !id.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }), id.utf8.count <= 4096 else {
                throw options.usage("--last-id takes an id of at most 4096 bytes, without control characters")
            }
            source.lastEventID = id
        }
        return source
    }

    /// Prints events until the source ends.
    private static func print(_ source: EventSource, _ printer: EventPrinter, _ display: Display) -> ExitStatus {
        source.completionQueue = DispatchQueue(label: "convoy.events")
        source.eventHandler = { source, event in
            if !printer.print(event) { source.close() }
        }
        let isOver = DispatchSemaphore(value: 0)
        source.setCompletionHandler(success: { _, _ in isOver.signal() }, failure: { _, _ in isOver.signal() })
        Interruption.shared.onInterrupt { source.cancel() }
        source.start()
        isOver.wait()
        if let status = Interruption.shared.status { return status }
        guard let error = source.error else { return .success }
        display.complain(ErrorText.line(for: error))
        return .failed(FailureKind(error, statusCode: source.statusCode))
    }
}

/// A printer for events, as lines for people or for programs.
final class EventPrinter: Sendable {
    private let display: Display
    /// The types to print, or an empty set for all.
    private let types: Set<String>
    private let printsJSON: Bool
    private let limit: Int?
    private let count = Locked(0)

    init(_ display: Display, types: [String], printsJSON: Bool, limit: Int?) {
        self.display = display
        self.types = Set(types)
        self.printsJSON = printsJSON
        self.limit = limit
    }

    /// Prints an event if its type is selected.
    ///
    /// - Returns: Whether to continue with further events.
    func print(_ event: ServerSentEvent) -> Bool {
        guard types.isEmpty || types.contains(event.type) else { return true }
        display.emit(printsJSON ? EventText.json(event) : EventText.line(event, withType: types.count != 1))
        return count.withLock { count in
            count += 1
            return limit.map { count < $0 } ?? true
        }
    }
}

/// Functions that format events as text.
enum EventText {
    /// Returns the lines of the data, followed by an empty line if there are several. The type precedes them, unless it
    /// is the default type or the only selected one.
    static func line(_ event: ServerSentEvent, withType: Bool) -> String {
        let lines = event.data.split(separator: "\n", omittingEmptySubsequences: false).map { Printable.line(String($0)) }
        let data = lines.joined(separator: "\n") + (lines.count > 1 ? "\n" : "")
        return withType && event.type != "message" ? "\(Printable.line(event.type)): \(data)" : data
    }

    static func json(_ event: ServerSentEvent) -> String {
        var line = JSONLine()
        line.add("type", event.type)
        line.add("data", event.data)
        line.add("id", event.lastEventID)
        return line.text
    }

    /// Describes an interruption of the connection.
    static func line(_ interruption: EventSourceInterruption) -> String {
        let reason = interruption.error.map { ErrorText.line(for: $0) } ?? "the server closed the stream"
        guard let delay = interruption.delay else { return "\(reason); waiting for the network" }
        return "\(reason); reconnecting in \(Amounts.seconds(delay))"
    }
}
