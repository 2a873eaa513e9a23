/// The tables of a kind of database, and how they came about.
package struct DatabaseSchema: Sendable {
    /// Tells databases of this kind from those of other programs. SQLite keeps it in the header. Not 0.
    package let applicationID: Int32
    /// The SQL that makes each version of the schema out of the one before; the first begins with an empty database.
    /// Steps are appended, and never changed once they were released.
    package let steps: [String]

    package init(applicationID: Int32, steps: [String]) {
        self.applicationID = applicationID
        self.steps = steps
    }

    /// The number of the newest version.
    var version: Int64 { Int64(steps.count) }
}
