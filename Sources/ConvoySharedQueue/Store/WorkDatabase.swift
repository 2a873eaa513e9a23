import ConvoySupport
import Foundation

/// A connection to the database of a shared queue, SQLite or PostgreSQL. Not thread-safe. All calls block.
package protocol WorkDatabase: AnyObject {
    /// The SQL dialect.
    var dialect: WorkDialect { get }
    /// Runs a statement with the values of `$1`, `$2` and so on, and returns its rows.
    ///
    /// - Parameter sql: A constant statement, because the connection keeps it prepared.
    func query(_ sql: String, _ values: [WorkValue]) throws(SharedQueueError) -> [WorkRow]
    /// Runs a closure in a transaction.
    func transaction<Result>(_ body: () throws(SharedQueueError) -> Result) throws(SharedQueueError) -> Result
    /// Locks ready entries of lanes, those of the lowest rank first, and returns the columns of a standing. Call within
    /// a transaction. Entries locked by another transaction are skipped.
    ///
    /// - Parameter lanes: The lanes to search, with the maximum number of entries in each.
    func pick(_ lanes: [WorkLane], limit: Int) throws(SharedQueueError) -> [WorkRow]
    /// Announces a change to the listeners of other processes when the transaction is committed.
    func announce(_ change: WorkAnnouncement) throws(SharedQueueError)
    /// Whether the connection is broken and must be replaced.
    var isBroken: Bool { get }
}

/// A listener for announcements of other processes. Used by one thread, except for ``interrupt()``.
package protocol WorkListener: AnyObject, Sendable {
    /// Blocks until an announcement arrives, the time has passed, or ``interrupt()`` is called.
    ///
    /// - Returns: The announcements, including `.work` if some may have been lost.
    /// - Throws: An error if the connection is broken.
    func wait(milliseconds: Int) throws(SharedQueueError) -> Set<WorkAnnouncement>
    /// Ends a wait. Can be called on any thread.
    func interrupt()
}

/// An announcement between processes.
package enum WorkAnnouncement: String, Sendable {
    /// Entries have become ready.
    case work
    /// Leased entries were cancelled or paused, or the whole queue was paused.
    case control
}

/// A value of a parameter or a column.
package enum WorkValue: Sendable, Hashable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case bytes([UInt8])

    package static func integer(_ value: Int64?) -> WorkValue { value.map { .integer($0) } ?? .null }
    package static func real(_ value: Double?) -> WorkValue { value.map { .real($0) } ?? .null }
    package static func text(_ value: String?) -> WorkValue { value.map { .text($0) } ?? .null }
    package static func bytes(_ value: [UInt8]?) -> WorkValue { value.map { .bytes($0) } ?? .null }
    package static func id(_ value: UUID?) -> WorkValue { .text(value?.uuidString.lowercased()) }
}

/// A row of a result. A column that is missing or has a different type reads as nil.
package struct WorkRow: Sendable {
    package var columns: [WorkValue]

    package init(_ columns: [WorkValue]) { self.columns = columns }

    private subscript(column: Int) -> WorkValue { columns.indices.contains(column) ? columns[column] : .null }

    package func integer(_ column: Int) -> Int64? {
        switch self[column] {
        case .integer(let number): number
        case .real(let number): Int64(exactly: number.rounded())
        default: nil
        }
    }

    package func int(_ column: Int) -> Int? { integer(column).map { Int(clamping: $0) } }

    /// Returns a count that is clamped, so that it can be incremented whatever the row contains.
    func count(_ column: Int) -> Int { Int(UInt32(clamping: integer(column) ?? 0)) }

    package func real(_ column: Int) -> Double? {
        switch self[column] {
        case .integer(let number): Double(number)
        case .real(let number): number
        default: nil
        }
    }

    package func text(_ column: Int) -> String? { if case .text(let text) = self[column] { text } else { nil } }

    package func id(_ column: Int) -> UUID? { text(column).flatMap { UUID(uuidString: $0) } }

    package func bytes(_ column: Int) -> [UInt8]? {
        switch self[column] {
        case .bytes(let bytes): bytes
        case .text(let text): Array(text.utf8)
        default: nil
        }
    }
}

/// The entries with one tag for one host.
package struct WorkLane: Sendable, Hashable {
    /// The tag and the host, separated by a character that tags cannot contain.
    package let name: String
    /// The maximum number of entries to take from the lane.
    package var count = 0

    static let separator: Character = "\u{1F}"

    package init(name: String) { self.name = name }

    init(tag: String, host: String) { name = "\(tag)\(Self.separator)\(host)" }

    var tag: String { String(name.prefix { $0 != Self.separator }) }
    var host: String { name.firstIndex(of: Self.separator).map { String(name[name.index(after: $0)...]) } ?? name }
}

/// The SQL dialect of a database.
package struct WorkDialect: Sendable {
    /// The type of a column in a list of rows.
    package enum Kind: Sendable { case id, integer, real, text, bytes }

    /// An expression for the current time, in microseconds since 1970.
    package let now: String
    /// An expression for the time on the wall clock, in microseconds since 1970. It differs from `now` if the clock was set.
    package let wall: String
    /// A clause that locks the rows of the table `e` until the transaction ends; empty if transactions are exclusive.
    package let forUpdate: String
    /// A clause that locks rows of the table `e`, skipping those that another transaction has locked.
    package let forUpdateSkippingLocked: String
    /// A clause that prevents changes to rows of the table `e` until the transaction ends.
    package let forShare: String
    /// A clause that makes a query use an index, placed after its table; empty if the database should choose.
    package let using: @Sendable (_ index: String) -> String
    /// A table with the rows that a parameter contains as JSON arrays, with named columns.
    package let rows: @Sendable (_ parameter: String, _ columns: [(name: String, kind: Kind)]) -> String

    package init(
        now: String, wall: String, forUpdate: String, forUpdateSkippingLocked: String, forShare: String,
        using: @escaping @Sendable (_ index: String) -> String,
        rows: @escaping @Sendable (_ parameter: String, _ columns: [(name: String, kind: Kind)]) -> String
    ) {
        self.now = now
        self.wall = wall
        self.forUpdate = forUpdate
        self.forUpdateSkippingLocked = forUpdateSkippingLocked
        self.forShare = forShare
        self.using = using
        self.rows = rows
    }

    /// Returns a table of identifiers in a single column, `id`.
    package func ids(_ parameter: String) -> String { rows(parameter, [("id", .id)]) }
}

/// The JSON text of a parameter that contains rows.
package struct WorkRowsText {
    private var text: [UInt8] = [UInt8(ascii: "[")]

    package init() {}

    package init(ids: some Sequence<UUID>) {
        for id in ids { append([.id(id)]) }
    }

    package var value: WorkValue { .text(String(decoding: text + [UInt8(ascii: "]")], as: UTF8.self)) }

    var isEmpty: Bool { text.count == 1 }
    /// The length in bytes.
    var length: Int { text.count }

    /// Adds a row. Bytes are written as hexadecimal digits.
    package mutating func append(_ row: [WorkValue]) {
        if text.count > 1 { text.append(UInt8(ascii: ",")) }
        text.append(UInt8(ascii: "["))
        for (index, value) in row.enumerated() {
            if index > 0 { text.append(UInt8(ascii: ",")) }
            append(value)
        }
        text.append(UInt8(ascii: "]"))
    }

    private mutating func append(_ value: WorkValue) {
        switch value {
        case .null: text += "null".utf8
        case .integer(let number): text += String(number).utf8
        case .real(let number): text += (number.isFinite ? "\(number)" : "null").utf8
        case .text(let string):
            text.append(UInt8(ascii: "\""))
            for byte in string.utf8 {
                switch byte {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"): text += [UInt8(ascii: "\\"), byte]
                // Databases cannot store NUL characters in text.
                case 0: text += "\u{FFFD}".utf8
                case ..<0x20:
                    text += "\\u00".utf8
                    appendHexadecimal(byte)
                default: text.append(byte)
                }
            }
            text.append(UInt8(ascii: "\""))
        case .bytes(let bytes):
            text.append(UInt8(ascii: "\""))
            for byte in bytes { appendHexadecimal(byte) }
            text.append(UInt8(ascii: "\""))
        }
    }

    private mutating func appendHexadecimal(_ byte: UInt8) {
        text.append(ASCII.hexadecimalDigit(byte >> 4))
        text.append(ASCII.hexadecimalDigit(byte & 15))
    }
}
