import ConvoySharedQueue
import ConvoySupport
import Dispatch
import Foundation

#if Postgres
import ConvoyPostgres
#endif

/// The store specified by `--store`.
enum QueueStore {
    static func store(_ options: Options) throws(ToolError) -> SharedQueueStore {
        guard let text = options.value("store"), !text.isEmpty else {
            throw options.usage("--store is required: a file, or postgresql://USER@HOST/NAME")
        }
        let scheme = text.range(of: "://").map { text[..<$0.lowerBound].lowercased() }
        switch scheme {
        case "postgres", "postgresql": return try postgres(text, options)
        case "sqlite", nil:
            guard !options.has("schema") else { throw options.usage("--schema requires PostgreSQL") }
            return .sqlite(UserPath.url(path(of: text)))
        default: throw options.usage("--store takes a file, or postgresql://USER@HOST/NAME")
        }
    }

    /// Checks that the file of a store exists or can be created.
    ///
    /// - Parameter makes: Whether a missing file will be created.
    static func check(_ options: Options, makes: Bool) throws(ToolError) {
        let text = options.value("store") ?? ""
        guard !text.contains("://") || text.lowercased().hasPrefix("sqlite://") else { return }
        let path = path(of: text)
        if !makes, access(path, F_OK) != 0 {
            throw .disk("the queue \(Printable.line(path)) does not exist; queue add creates it")
        }
        let directory = PathText.directory(of: path)
        if access(directory.isEmpty ? "." : directory, F_OK) != 0 {
            throw .disk("the directory \(Printable.line(directory)) does not exist")
        }
    }

    private static func path(of text: String) -> String {
        text.lowercased().hasPrefix("sqlite://") ? String(text.dropFirst("sqlite://".count)) : text
    }

    private static func postgres(_ address: String, _ options: Options) throws(ToolError) -> SharedQueueStore {
        #if Postgres
        let schema = options.value("schema") ?? "convoy"
        let isName = schema.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        guard isName, (1...63).contains(schema.utf8.count) else {
            throw options.usage("--schema takes letters, digits and underscores, at most 63")
        }
        return .postgres(address, schema: schema)
        #else
        throw options.usage("this convoy was built without PostgreSQL: swift build --product convoy --traits Postgres")
        #endif
    }
}

/// Functions that call a shared queue from a thread that may block.
enum QueueCall {
    /// Returns the result of a closure, and blocks until it is available. Must not be called on a thread of Swift's
    /// concurrency pool.
    static func result<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) throws(ToolError) -> Value {
        do {
            return try AsyncCall.outcome(body).get()
        } catch {
            throw toolError(error)
        }
    }

    /// Connects to the database. Retries for 30 seconds, and prints a message if connecting takes longer than three
    /// seconds.
    ///
    /// - Parameter makes: Whether to create a missing file.
    static func connect(
        _ queue: SharedQueue, _ display: Display, _ options: Options, makes: Bool = false
    ) throws(ToolError) {
        try QueueStore.check(options, makes: makes)
        let timer = DispatchSource.makeTimerSource()
        timer.setEventHandler { display.complain("waiting for the database") }
        timer.schedule(deadline: .now() + 3)
        timer.resume()
        defer { timer.cancel() }
        _ = try result { try await queue.isPaused() }
    }

    static func mapping<Value>(_ body: () throws(SharedQueueError) -> Value) throws(ToolError) -> Value {
        do throws(SharedQueueError) { return try body() } catch { throw toolError(error) }
    }

    static func toolError(_ error: any Error) -> ToolError {
        if let error = error as? ToolError { return error }
        guard let error = error as? SharedQueueError else { return .failure(ErrorText.line(for: error)) }
        let line = Printable.line(Shown.text(error.description))
        return switch error {
        case .unavailable: ToolError(text: line, status: .failed(.connection))
        case .diskFull: .disk(line)
        case .unsuitableRequest, .secretInURL, .bodyTooLong, .unreadableBody, .unknownDependency, .dependencyCycle,
            .invalidSchedule:
            .usage(line)
        default: .failure(line)
        }
    }
}

/// Functions that parse times in options.
enum QueueTime {
    /// Returns the seconds of a string such as `90`, `10m`, `2h` or `7d`, or nil for any other string.
    static func seconds(_ text: String) -> TimeInterval? {
        let factors: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let factor = text.last.flatMap { factors[$0] }
        let digits = factor == nil ? text[...] : text.dropLast()
        guard !digits.isEmpty, digits.utf8.allSatisfy({ ASCII.isDigit($0) || $0 == UInt8(ascii: ".") }),
            let number = Double(digits), number * (factor ?? 1) <= 1e10
        else { return nil }
        return number * (factor ?? 1)
    }

    /// Returns the duration of an option in seconds; nil if it is not given.
    static func seconds(_ name: String, _ options: Options) throws(ToolError) -> TimeInterval? {
        guard let text = options.value(name) else { return nil }
        guard let seconds = seconds(text) else {
            throw options.usage("--\(name) takes a time such as 90, 10m, 2h or 7d")
        }
        return seconds
    }

    /// Returns the time of an option, relative to now or in ISO 8601.
    static func date(_ name: String, _ options: Options) throws(ToolError) -> Date? {
        guard let text = options.value(name) else { return nil }
        if let seconds = seconds(text) { return Date(timeIntervalSinceNow: seconds) }
        if let date = try? Date(text, strategy: .iso8601) { return date }
        throw options.usage("--\(name) takes a time from now such as 10m, 2h or 7d, or a date such as 2026-12-01T09:00:00Z")
    }

    static func text(_ date: Date) -> String { date.formatted(.iso8601) }
}
