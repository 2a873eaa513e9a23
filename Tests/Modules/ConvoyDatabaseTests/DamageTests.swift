import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyDatabase

/// Damages database files externally, which causes a typed error, and a new database if the owner requests one.
@Suite struct DamageTests {
    let directory: TemporaryDirectory
    var path: String { directory.file("store.db").path }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-damage") }

    private func database() throws(DatabaseError) -> Database {
        try Database(path: path, schema: .notes, busyTimeout: 1)
    }

    private func fill(_ count: Int = 300) throws {
        let database = try database()
        try database.transaction { () throws(DatabaseError) in
            for number in 0..<count {
                try database.run(
                    "INSERT INTO note (text) VALUES (?)", [.text("\(number) " + String(repeating: "x", count: 200))])
            }
        }
    }

    private func readAll() throws(DatabaseError) -> Int {
        var count = 0
        let database = try database()
        try database.forEachRow("SELECT text FROM note") { row throws(DatabaseError) in
            _ = row.text(0)
            count += 1
        }
        return count
    }

    @Test("a database with a damaged header is set aside and replaced by a new one")
    func header() throws {
        try fill()
        var bytes = try Data(contentsOf: directory.file("store.db"))
        bytes.replaceSubrange(0..<100, with: Data(repeating: 0x55, count: 100))
        try bytes.write(to: directory.file("store.db"))
        let error = #expect(throws: DatabaseError.self) { try database() }
        #expect(error?.code == .damaged)
        let file = try #require(error?.damagedFile)
        #expect(try Database.quarantine(file, at: path))
        #expect(try readAll() == 0)
        #expect(try Data(contentsOf: directory.file("store.db.damaged")) == bytes)
        // A process that detected the damage but acts later does not rename the new file.
        #expect(try !Database.quarantine(file, at: path))
        #expect(try readAll() == 0)
    }

    @Test("a truncated database is reported as damaged", arguments: [2, 50, 512, 4096, 5000, 20_000])
    func truncated(_ size: Int) throws {
        try fill()
        let bytes = try Data(contentsOf: directory.file("store.db"))
        try #require(bytes.count > 20_000)
        try bytes.prefix(size).write(to: directory.file("store.db"))
        let error = #expect(throws: DatabaseError.self) { try readAll() }
        #expect(error?.code == .damaged)
    }

    @Test("reading a database damaged in the middle throws a typed error or returns a value, and never crashes")
    func pages() throws {
        try fill()
        let bytes = try Data(contentsOf: directory.file("store.db"))
        var random = SplitMix64.printingSeed()
        var found = 0
        for _ in 0..<60 {
            var damaged = bytes
            let start = Int.random(in: 0..<bytes.count, using: &random)
            let end = min(bytes.count, start + Int.random(in: 1...4096, using: &random))
            damaged.replaceSubrange(start..<end, with: random.data(count: end - start))
            try damaged.write(to: directory.file("store.db"))
            do throws(DatabaseError) {
                _ = try readAll()
            } catch {
                found += 1
                #expect([.damaged, .foreign, .newer, .cannotOpen, .other].contains(error.code), "\(error)")
            }
            for name in ["store.db-wal", "store.db-shm"] { unlink(directory.file(name).path) }
        }
        #expect(found > 0)
    }

    @Test("a connection to a database that was set aside detects this and does not write to the new one")
    func replaced() throws {
        try fill(1)
        let old = try database()
        #expect(old.isCurrent)
        let file = try #require(old.file)
        #expect(try Database.quarantine(file, at: path))
        #expect(!old.isCurrent)
        let error = #expect(throws: DatabaseError.self) { try old.transaction {} }
        #expect(error?.code == .replaced)
        let new = try database()
        try new.run("INSERT INTO note (text) VALUES ('new')")
        // The new database is also unaffected if the old one is written without a transaction and closed last.
        _ = try? old.run("INSERT INTO note (text) VALUES ('old')")
        _ = consume old
        #expect(FileManager.default.fileExists(atPath: "\(path)-wal"))
        #expect(try new.integer("SELECT count(*) FROM note") == 1)
        #expect(try readAll() == 1)
    }

    @Test("an empty file becomes a database")
    func empty() throws {
        try directory.write(Data(), to: "store.db")
        #expect(try readAll() == 0)
    }

    @Test("a link, a directory and a missing directory are rejected")
    func notAFile() throws {
        try fill(1)
        let link = directory.file("link.db").path
        try #require(symlink(path, link) == 0)
        try FileManager.default.createDirectory(at: directory.file("folder"), withIntermediateDirectories: false)
        for place in [link, directory.file("folder").path, directory.file("none/store.db").path] {
            let error = #expect(throws: DatabaseError.self) { try Database(path: place, schema: .notes) }
            #expect(error?.code == .cannotOpen, "\(place)")
        }
        // A link in the parent directories is allowed.
        let linked = directory.file("linked").path
        try #require(symlink(directory.url.path, linked) == 0)
        #expect(try Database(path: "\(linked)/store.db", schema: .notes).integer("SELECT count(*) FROM note") == 1)
    }

    @Test("opening a database in a read-only directory throws a typed error")
    func readOnlyDirectory() throws {
        let place = directory.file("locked")
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: false)
        try #require(chmod(place.path, 0o500) == 0)
        guard geteuid() != 0 else {
            // Permissions do not restrict root, so use a path at which nothing can be created.
            print("skipped in part: the permissions of a directory do not restrict root")
            let error = #expect(throws: DatabaseError.self) { try Database(path: "/proc/store.db", schema: .notes) }
            #expect([.cannotOpen, .readOnly].contains(error?.code))
            return
        }
        let error = #expect(throws: DatabaseError.self) {
            try Database(path: place.appendingPathComponent("store.db").path, schema: .notes)
        }
        #expect(error?.code == .readOnly)
    }

    @Test("writing to a full disk throws a typed error and keeps committed data")
    func full() throws {
        let database = try database()
        try database.run("INSERT INTO note (text) VALUES ('kept')")
        try database.run("PRAGMA max_page_count=10")
        let error = #expect(throws: DatabaseError.self) {
            try database.transaction { () throws(DatabaseError) in
                for _ in 0..<1000 {
                    try database.run("INSERT INTO note (text) VALUES (?)", [.text(String(repeating: "x", count: 1000))])
                }
            }
        }
        #expect(error?.code == .full)
        try database.run("PRAGMA max_page_count=1000")
        try database.transaction { () throws(DatabaseError) in try database.run("INSERT INTO note (text) VALUES ('more')") }
        #expect(try database.integer("SELECT count(*) FROM note") == 2)
    }

    @Test("a full disk, an exceeded quota and an oversized file are reported as the same error")
    func codes() {
        for code in [ENOSPC, EDQUOT, EFBIG] { #expect(DatabaseError.code(10 | (3 << 8), systemCode: code) == .full) }
        #expect(DatabaseError.code(10 | (3 << 8), systemCode: EIO) == .io)
        #expect(DatabaseError.code(5 | (2 << 8), systemCode: 0) == .busy)
        #expect(DatabaseError.code(8 | (4 << 8), systemCode: 0) == .replaced)
    }
}
