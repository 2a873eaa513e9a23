import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyDatabase

extension DatabaseSchema {
    static let notes = DatabaseSchema(
        applicationID: 0x436F_6E54, steps: ["CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, bytes BLOB)"])
}

@Suite struct DatabaseTests {
    let directory: TemporaryDirectory
    var path: String { directory.file("store.db").path }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-database") }

    func database(_ schema: DatabaseSchema = .notes, timeout: TimeInterval = 5) throws(DatabaseError) -> Database {
        try Database(path: path, schema: schema, busyTimeout: timeout)
    }

    private func mode(_ name: String) -> mode_t {
        var facts = stat()
        return lstat(directory.file(name).path, &facts) == 0 ? facts.st_mode & 0o777 : 0
    }

    @Test("only its owner can read the database and the files next to it")
    func mode() throws {
        let database = try database()
        try database.run("INSERT INTO note (text) VALUES ('secret')")
        for name in ["store.db", "store.db-wal", "store.db-shm", "store.db.lock"] { #expect(mode(name) == 0o600, "\(name)") }
        #expect(!FileManager.default.fileExists(atPath: directory.file("store.db.new").path))
    }

    @Test("values of every kind are read as they were bound")
    func values() throws {
        let database = try database()
        let texts = ["", "a\u{0}b", "é😀", String(repeating: "x", count: 100_000)]
        let blobs: [[UInt8]] = [[], [0], [0xFF, 0xFE], [UInt8](repeating: 7, count: 100_000)]
        for (text, blob) in zip(texts, blobs) {
            try database.run("INSERT INTO note (text, bytes) VALUES (?, ?)", [.text(text), .blob(blob)])
        }
        var index = 0
        try database.forEachRow("SELECT text, bytes FROM note ORDER BY id") { row throws(DatabaseError) in
            #expect(row.text(0) == texts[index])
            #expect(row.blob(1) == blobs[index])
            #expect(!row.isNull(1))
            index += 1
        }
        #expect(index == 4)
        let extremes: [Int64] = [.min, -1, 0, .max]
        for number in extremes { #expect(try database.integer("SELECT ?", [.integer(number)]) == number) }
        try database.withStatement("SELECT ?, ?", [nil, .real(-0.5)]) { row throws(DatabaseError) in
            let hasRow = try row.step()
            #expect(hasRow)
            #expect(row.isNull(0))
            #expect(row.real(1) == -0.5)
        }
    }

    @Test("a statement can be used while the same statement is being stepped through")
    func nested() throws {
        let database = try database()
        for text in ["a", "b"] { try database.run("INSERT INTO note (text) VALUES (?)", [.text(text)]) }
        var pairs: [String] = []
        let sql = "SELECT text FROM note ORDER BY id"
        try database.forEachRow(sql) { outer throws(DatabaseError) in
            try database.forEachRow(sql) { inner throws(DatabaseError) in pairs.append(outer.text(0) + inner.text(0)) }
        }
        #expect(pairs == ["aa", "ab", "ba", "bb"])
    }

    @Test("a transaction whose closure throws changes nothing, and the next one succeeds")
    func rollback() throws {
        let database = try database()
        #expect(throws: DatabaseError.self) {
            try database.transaction { () throws(DatabaseError) in
                try database.run("INSERT INTO note (text) VALUES ('a')")
                try database.run("INSERT INTO nothing VALUES (1)")
            }
        }
        #expect(try database.integer("SELECT count(*) FROM note") == 0)
        try database.transaction { () throws(DatabaseError) in try database.run("INSERT INTO note (text) VALUES ('a')") }
        #expect(try database.integer("SELECT count(*) FROM note") == 1)
    }

    @Test("missing schema steps are applied to an older database, which keeps its rows")
    func migration() throws {
        do {
            let old = try database()
            try old.run("INSERT INTO note (text) VALUES ('kept')")
        }
        let newer = DatabaseSchema(
            applicationID: DatabaseSchema.notes.applicationID,
            steps: DatabaseSchema.notes.steps + ["ALTER TABLE note ADD COLUMN color TEXT DEFAULT 'red'"])
        let database = try database(newer)
        #expect(try database.integer("SELECT count(*) FROM note WHERE text = 'kept' AND color = 'red'") == 1)
        #expect(try database.integer("PRAGMA user_version") == 2)
    }

    @Test("a database of a newer version is rejected and not changed")
    func newerVersion() throws {
        do { try database().execute("PRAGMA user_version=2") }
        let before = try Data(contentsOf: directory.file("store.db"))
        let error = #expect(throws: DatabaseError.self) { try database() }
        #expect(error?.code == .newer)
        #expect(try Data(contentsOf: directory.file("store.db")) == before)
    }

    @Test("a database of another program is rejected and not changed, with or without an application ID")
    func foreign() throws {
        let program = try ProcessRunner.run("sqlite3", [path, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)"])
        try #require(program.status == 0)
        let before = try Data(contentsOf: directory.file("store.db"))
        var error = #expect(throws: DatabaseError.self) { try database() }
        #expect(error?.code == .foreign)
        #expect(try Data(contentsOf: directory.file("store.db")) == before)
        let other = DatabaseSchema(applicationID: 77, steps: ["CREATE TABLE x (y)"])
        _ = try Database(path: directory.file("other.db").path, schema: other)
        error = #expect(throws: DatabaseError.self) { try Database(path: directory.file("other.db").path, schema: .notes) }
        #expect(error?.code == .foreign)
    }

    @Test("two connections see each other's changes and are notified")
    func twoConnections() throws {
        let (one, other) = (try database(), try database())
        let before = try one.dataVersion()
        try other.run("INSERT INTO note (text) VALUES ('a')")
        #expect(try one.dataVersion() != before)
        #expect(try one.integer("SELECT count(*) FROM note") == 1)
    }

    @Test("a process that waits too long for another transaction gets a typed error")
    func busy() throws {
        let (one, other) = (try database(), try database(timeout: 0.05))
        try one.transaction { () throws(DatabaseError) in
            let error = #expect(throws: DatabaseError.self) { try other.transaction {} }
            #expect(error?.code == .busy)
        }
        try other.transaction { () throws(DatabaseError) in try other.run("INSERT INTO note (text) VALUES ('a')") }
    }

    @Test("connections on several threads lose no rows")
    func threads() throws {
        let path = path
        let failures = Locked<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            do throws(DatabaseError) {
                // The first process creates the database.
                let database = try Database(path: path, schema: .notes, busyTimeout: 60)
                for number in 0..<25 {
                    try database.transaction { () throws(DatabaseError) in
                        try database.run("INSERT INTO note (text) VALUES (?)", [.text("\(thread) \(number)")])
                    }
                }
            } catch {
                failures.withLock { $0.append(error.description) }
            }
        }
        #expect(failures.withLock { $0 } == [])
        #expect(try database().integer("SELECT count(DISTINCT text) FROM note") == 100)
    }

    @Test("two programs lose no rows")
    func programs() throws {
        let database = try database(timeout: 60)
        let lines = (0..<50).map { "INSERT INTO note (text) VALUES ('p\($0)');" }.joined(separator: "\n")
        let other = try directory.write(Data((".timeout 60000\n" + lines).utf8), to: "lines.sql")
        let log = directory.file("log")
        let program = try ChildProcess(
            "sh", ["-c", "sqlite3 '\(path)' < '\(other.path)'"], directory: directory.url, log: log)
        for number in 0..<50 { try database.run("INSERT INTO note (text) VALUES (?)", [.text("o\(number)")]) }
        try eventually(timeout: 60, "the end of the program") { !program.isRunning }
        #expect(program.exitStatus == 0, "\(program.output)")
        #expect(try database.integer("SELECT count(DISTINCT text) FROM note") == 100)
    }
}
