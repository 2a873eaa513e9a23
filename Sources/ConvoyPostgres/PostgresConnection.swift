#if Postgres
import CPostgres
import ConvoySharedQueue
import ConvoySupport
import Foundation

/// A connection to PostgreSQL. Not thread-safe. All calls block, but only up to a time limit.
final class PostgresConnection {
    private let handle: OpaquePointer
    /// The names of prepared statements, by SQL.
    private var names: [String: String] = [:]
    private(set) var isBroken = false
    private var isInTransaction = false
    /// Whether a pooler may give each transaction another session of the server, so that nothing can be kept in a session.
    private(set) var isPooled = false
    /// The statements that configure the session, or each transaction if ``isPooled`` is set.
    private var settings: [String] = []

    /// The maximum time the server may take to respond, in milliseconds.
    private static let timeLimit = 30_000

    /// - Parameter address: A URL or a list of settings, in libpq's format.
    init(_ address: String) throws(SharedQueueError) {
        guard let handle = PQconnectdb(try Self.complete(address)) else {
            throw .unavailable("There is not enough memory for a database connection.")
        }
        self.handle = handle
        guard PQstatus(handle) == CONNECTION_OK else {
            let text = Self.line(PQerrorMessage(handle))
            throw PostgresConnection.connectionError(text)
        }
        convoy_ignore_notices(handle)
        PQsetnonblocking(handle, 1)
        // `PGCLIENTENCODING` and the address may specify another encoding.
        guard PQsetClientEncoding(handle, "UTF8") == 0 else {
            let text = Self.line(PQerrorMessage(handle))
            throw .failed("The database cannot convert text to UTF-8: \(text)")
        }
    }

    deinit { PQfinish(handle) }

    /// Adds limits for an unresponsive server, and the application name, to the address unless it specifies them.
    private static func complete(_ address: String) throws(SharedQueueError) -> String {
        let settings = try settings(of: address)
        var text = address
        // A URL contains additional settings in its query.
        let isURL = address.hasPrefix("postgresql://") || address.hasPrefix("postgres://")
        for (name, value) in [
            ("connect_timeout", "10"), ("keepalives_idle", "10"), ("keepalives_interval", "3"), ("keepalives_count", "3"),
            ("tcp_user_timeout", "20000"), ("application_name", "convoy"),
        ] where settings[name] == nil {
            if isURL {
                text += "\(text.contains("?") ? "&" : "?")\(name)=\(value)"
            } else {
                text += " \(name)=\(value)"
            }
        }
        return text
    }

    /// Parses the address of a database into libpq's settings.
    static func settings(of address: String) throws(SharedQueueError) -> [String: String] {
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(address, &message) else {
            defer { PQfreemem(message) }
            // The message can contain the address, including its password.
            throw .failed("Invalid database address: use the form postgresql://user@host:5432/database.")
        }
        defer { PQconninfoFree(options) }
        var settings: [String: String] = [:]
        var option = options
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { settings[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return settings
    }

    /// Detects a connection pooler, which does not pass on the process identifier of a session of the server.
    func detectPooler() throws(SharedQueueError) {
        let process = try query("SELECT pg_backend_pid()", [], isPrepared: false).first?.integer(0)
        isPooled = process != Int64(PQbackendPID(handle))
    }

    /// Configures the session, or all later transactions.
    func configure(_ settings: [String]) throws(SharedQueueError) {
        self.settings = settings
        if !isPooled { try execute(settings.map { "SET \($0)" }.joined(separator: "; ")) }
    }

    // MARK: Statements

    /// Runs statements that have neither parameters nor results.
    func execute(_ sql: String) throws(SharedQueueError) {
        try check(PQsendQuery(handle, sql))
        _ = try finish()
    }

    /// Runs a statement, which is prepared on first use.
    func query(_ sql: String, _ values: [WorkValue]) throws(SharedQueueError) -> [WorkRow] {
        guard isPooled, !isInTransaction else { return try query(sql, values, isPrepared: !isPooled) }
        return try transaction { () throws(SharedQueueError) in try query(sql, values, isPrepared: false) }
    }

    private func query(
        _ sql: String, _ values: [WorkValue], isPrepared: Bool
    ) throws(SharedQueueError) -> [WorkRow] {
        let name = isPrepared ? try prepare(sql, count: values.count) : nil
        let copies = values.map { Self.text($0).flatMap { strdup($0) } }
        defer { for copy in copies { free(copy) } }
        let pointers = copies.map { UnsafePointer($0) }
        if let name {
            try check(PQsendQueryPrepared(handle, name, Int32(values.count), pointers, nil, nil, 0))
        } else {
            try check(PQsendQueryParams(handle, sql, Int32(values.count), nil, pointers, nil, nil, 0))
        }
        return try finish()
    }

    private func prepare(_ sql: String, count: Int) throws(SharedQueueError) -> String {
        if let known = names[sql] { return known }
        let name = "s\(names.count)"
        try check(PQsendPrepare(handle, name, sql, Int32(count), nil))
        _ = try finish()
        names[sql] = name
        return name
    }

    private static func text(_ value: WorkValue) -> String? {
        switch value {
        case .null: nil
        case .integer(let number): String(number)
        case .real(let number): "\(number)"
        case .text(let text): text.contains("\0") ? text.replacingOccurrences(of: "\0", with: "\u{FFFD}") : text
        case .bytes(let bytes): "\\x" + Data(bytes).hexadecimalString
        }
    }

    /// Runs a closure in a transaction.
    func transaction<Result>(_ body: () throws(SharedQueueError) -> Result) throws(SharedQueueError) -> Result {
        guard !isInTransaction else { return try body() }
        // The default level of the database may be another, under which limits and migrations would not be safe.
        let local = isPooled ? settings.map { "; SET LOCAL \($0)" }.joined() : ""
        try execute("BEGIN ISOLATION LEVEL READ COMMITTED\(local)")
        isInTransaction = true
        defer { isInTransaction = false }
        do throws(SharedQueueError) {
            let result = try body()
            try execute("COMMIT")
            return result
        } catch {
            if !isBroken { try? execute("ROLLBACK") }
            throw error
        }
    }

    // MARK: Waiting

    private func check(_ result: Int32) throws(SharedQueueError) {
        guard result == 1 else {
            isBroken = true
            throw .unavailable(Self.line(PQerrorMessage(handle)))
        }
    }

    /// Waits for the results of the last command, and returns the rows of the last result.
    private func finish() throws(SharedQueueError) -> [WorkRow] {
        var rows: [WorkRow] = [], failure: SharedQueueError?
        let end = MonotonicClock.now + UInt64(Self.timeLimit) * 1_000_000
        while true {
            try receive(until: end)
            guard let result = PQgetResult(handle) else { break }
            defer { PQclear(result) }
            switch PQresultStatus(result) {
            case PGRES_TUPLES_OK: rows = Self.rows(result)
            case PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: break
            default: failure = failure ?? error(result)
            }
        }
        if let failure {
            if case .unavailable = failure { isBroken = true }
            throw failure
        }
        return rows
    }

    private func receive(until end: MonotonicTime) throws(SharedQueueError) {
        while true {
            let unsent = PQflush(handle)
            guard unsent >= 0 else { throw lost() }
            if unsent == 0, PQisBusy(handle) == 0 { return }
            let now = MonotonicClock.now
            guard now < end else {
                isBroken = true
                throw .unavailable("The database has not responded for \(Self.timeLimit / 1000) seconds.")
            }
            let events = Int16(POLLIN) | (unsent > 0 ? Int16(POLLOUT) : 0)
            _ = try wait(events, milliseconds: Int((end - now) / 1_000_000) + 1)
            guard PQconsumeInput(handle) == 1 else { throw lost() }
        }
    }

    private func lost() -> SharedQueueError {
        isBroken = true
        return .unavailable(Self.line(PQerrorMessage(handle)))
    }

    /// Waits until the socket is ready, or another descriptor is readable.
    private func wait(_ events: Int16, milliseconds: Int, beside other: Int32 = -1) throws(SharedQueueError) -> Bool {
        let socket = PQsocket(handle)
        // Without a socket, the connection is closed, and `poll` would wait for nothing.
        guard socket >= 0 else { throw lost() }
        var descriptors = [
            pollfd(fd: socket, events: events, revents: 0), pollfd(fd: other, events: Int16(POLLIN), revents: 0),
        ]
        let count = poll(&descriptors, nfds_t(descriptors.count), Int32(clamping: milliseconds))
        return count > 0 && descriptors[1].revents != 0
    }

    /// Waits until notifications arrive, a descriptor is readable, or the time has elapsed.
    func notifications(milliseconds: Int, beside descriptor: Int32) throws(SharedQueueError) -> [String] {
        let end = Nanoseconds.deadline(Double(milliseconds) / 1000, after: MonotonicClock.now)
        var payloads: [String] = []
        while true {
            guard PQconsumeInput(handle) == 1 else { throw lost() }
            while let notification = PQnotifies(handle) {
                payloads.append(String(cString: notification.pointee.extra))
                PQfreemem(notification)
            }
            let now = MonotonicClock.now
            if !payloads.isEmpty || now >= end { return payloads }
            let left = Int((end - now) / 1_000_000) + 1
            if try wait(Int16(POLLIN), milliseconds: left, beside: descriptor) { return payloads }
        }
    }

    // MARK: Results

    private static func rows(_ result: OpaquePointer) -> [WorkRow] {
        let (rowCount, columnCount) = (PQntuples(result), PQnfields(result))
        let types = (0..<columnCount).map { PQftype(result, $0) }
        var rows: [WorkRow] = []
        rows.reserveCapacity(Int(rowCount))
        for row in 0..<rowCount {
            rows.append(
                WorkRow(
                    (0..<columnCount).map { column in
                        guard PQgetisnull(result, row, column) == 0, let start = PQgetvalue(result, row, column) else {
                            return .null
                        }
                        let bytes = UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column)))
                        return value(bytes, types[Int(column)])
                    }))
        }
        return rows
    }

    /// Returns a value. The types are those in `pg_type`, whose numbers never change.
    private static func value(_ bytes: UnsafeRawBufferPointer, _ type: Oid) -> WorkValue {
        let text = String(decoding: bytes, as: UTF8.self)
        switch type {
        case 16: return .integer(text == "t" ? 1 : 0)
        case 20, 21, 23: return Int64(text).map { .integer($0) } ?? .null
        case 700, 701, 1700: return Double(text).map { .real($0) } ?? .null
        case 17:
            // The format is `\x` followed by pairs of hexadecimal digits.
            return .bytes(ASCII.bytes(ofHexadecimal: bytes.dropFirst(2)))
        default: return .text(text)
        }
    }

    // MARK: Errors

    private func error(_ result: OpaquePointer) -> SharedQueueError {
        let text = Self.line(PQresultErrorMessage(result))
        guard let state = PQresultErrorField(result, Int32(UInt8(ascii: "C"))).map({ String(cString: $0) }) else {
            return PQstatus(handle) == CONNECTION_OK ? .failed(text) : .unavailable(text)
        }
        return Self.error(state, text)
    }

    /// Returns the error for an SQL state (PostgreSQL, appendix A).
    static func error(_ state: String, _ text: String) -> SharedQueueError {
        switch state {
        // These states report a serialization failure, a deadlock, or an unavailable lock.
        case "40001", "40P01", "55P03": .conflict(text)
        case "23505": .duplicateKey(text)
        case "53100": .diskFull(text)
        // The server is shutting down, has crashed or is starting; it has no free connections; or it is read-only after
        // a failover.
        case "57P01", "57P02", "57P03", "57P05", "53300", "25006": .unavailable(text)
        // The statement or the transaction took too long, or was cancelled by an operator.
        case "57014", "25P03", "25P04": .unavailable(text)
        case "42501": .denied(text)
        default:
            switch state.prefix(2) {
            case "08": .unavailable(text)
            case "28": .denied(text)
            default: .failed(text)
            }
        }
    }

    /// Returns the error for a connection that could not be established, for which libpq provides no SQL state.
    private static func connectionError(_ text: String) -> SharedQueueError {
        let denials = ["authentication failed", "no pg_hba.conf entry", "does not exist", "permission denied for database"]
        // A missing socket means that the server is not running.
        if denials.contains(where: text.contains), !text.contains("socket") || text.contains("FATAL") {
            return .denied(text)
        }
        return .unavailable(text)
    }

    private static func line(_ message: UnsafePointer<CChar>?) -> String {
        let text = message.map { String(cString: $0) } ?? ""
        let lines = text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
        return lines.isEmpty ? "The connection was lost." : lines.joined(separator: " ")
    }
}
#endif
