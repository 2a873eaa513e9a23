import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyDatabase

/// Databases, and files next to them, that another user has prepared or can change.
@Suite struct PreparedDatabaseTests {
    let directory: TemporaryDirectory
    var path: String { directory.file("store.db").path }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-database") }

    private func fill() throws {
        let database = try Database(path: path, schema: .notes)
        try database.run("INSERT INTO note (text) VALUES ('a')")
    }

    private func expectRefusal(_ name: String) {
        let error = #expect(throws: DatabaseError.self, "\(name)") { try Database(path: path, schema: .notes) }
        #expect(error?.code == .unsafe, "\(name): \(error.map { "\($0)" } ?? "")")
        #expect(error?.text.isEmpty == false)
    }

    @Test(arguments: ["store.db", "store.db-wal", "store.db-shm", "store.db.lock"])
    func `a file that others can write to, or that another user owns, is rejected`(_ name: String) throws {
        try fill()
        let file = directory.file(name).path
        for mode in [0o606, 0o660, 0o666] as [mode_t] {
            try #require(chmod(file, mode) == 0)
            expectRefusal("\(name) \(String(mode, radix: 8))")
        }
        try #require(chmod(file, 0o600) == 0)
        try #require(link(file, "\(file).other") == 0)
        expectRefusal("\(name) with two names")
        try #require(unlink("\(file).other") == 0)
        #expect(try Database(path: path, schema: .notes).integer("SELECT count(*) FROM note") == 1)
        guard geteuid() == 0 else { return print("skipped in part: only root can give a file to another user") }
        try #require(chown(file, 65534, 65534) == 0)
        expectRefusal("\(name) of another user")
    }

    @Test(arguments: ["store.db-wal", "store.db-shm", "store.db-journal"])
    func `files planted beside a new database are rejected`(_ name: String) throws {
        try directory.write(Data("prepared".utf8), to: name)
        try #require(chmod(directory.file(name).path, 0o666) == 0)
        expectRefusal(name)
        #expect(try Data(contentsOf: directory.file(name)) == Data("prepared".utf8))
    }

    @Test func `a file with the name of an earlier temporary file is kept`() throws {
        try directory.write(Data("mine".utf8), to: "store.db.new")
        try #require(chmod(directory.file("store.db.new").path, 0o666) == 0)
        try fill()
        #expect(try Data(contentsOf: directory.file("store.db.new")) == Data("mine".utf8))
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.url.path).sorted()
        #expect(names == ["store.db", "store.db-shm", "store.db-wal", "store.db.lock", "store.db.new"])
        var facts = stat()
        #expect(stat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
    }

    @Test func `checking the files does not release this process's locks`() throws {
        let one = try Database(path: path, schema: .notes)
        try one.execute("BEGIN IMMEDIATE")
        for _ in 0..<3 { _ = try Database(path: path, schema: .notes) }
        // Another process checks whether the lock is still held.
        let result = try ProcessRunner.run(
            "python3",
            [
                "-c",
                """
                import sqlite3, sys
                connection = sqlite3.connect(sys.argv[1], timeout=0)
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    print("free")
                except sqlite3.OperationalError as error:
                    print(error)
                """, path,
            ], input: Data(), timeout: 30)
        #expect(String(decoding: result.output, as: UTF8.self) == "database is locked\n")
        try one.execute("COMMIT")
    }
}
