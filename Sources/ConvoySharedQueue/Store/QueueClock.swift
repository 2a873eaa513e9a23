import ConvoyDatabase
import ConvoySupport

/// The clock of a queue in a file, shared by all processes of the machine.
///
/// It begins with the time of the system clock when the file is first used after the machine has started, and continues
/// with the time since boot. Setting the system clock therefore neither ends nor prolongs leases and delays.
struct QueueClock: Sendable {
    /// The system clock, and the time since boot, in microseconds. Tests replace them.
    var wall: @Sendable () -> Int64
    var up: @Sendable () -> Int64
    /// The identifier of the boot from which `up` is counted.
    var boot: Int64

    static let system = QueueClock(wall: { SystemClock.wall }, up: { SystemClock.up }, boot: SystemClock.boot)

    /// The call of the SQL function that returns the time in microseconds since 1970.
    static let function = "queue_time()"

    /// Adds the SQL function to a connection.
    func add(to database: Database) throws(DatabaseError) {
        let ahead = try ahead(in: database)
        try database.addFunction("queue_time") { [up] in up().addingReportingOverflow(ahead).partialValue }
    }

    /// Returns the difference between the clock and the time since boot. The first process after a boot determines it.
    private func ahead(in database: Database) throws(DatabaseError) -> Int64 {
        let known = "SELECT ahead FROM clock WHERE boot = ?1"
        if let ahead = try database.integer(known, [.integer(boot)]) { return ahead }
        return try database.transaction { () throws(DatabaseError) in
            if let ahead = try database.integer(known, [.integer(boot)]) { return ahead }
            // The system clock may have been set back. Without a battery, it begins in the past.
            let last = try database.integer(
                """
                SELECT max(coalesce((SELECT max(seen) FROM worker), 0), coalesce((SELECT max(changed) FROM entry), 0))
                """)
            let ahead = max(wall(), last ?? 0).subtractingReportingOverflow(up()).partialValue
            try database.execute("DELETE FROM clock; INSERT INTO clock VALUES (\(boot), \(ahead))")
            return ahead
        }
    }
}
