import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies
@testable import ConvoyDatabase

/// Cookies that outlive their process and are shared with other processes.
@Suite struct CookieFileTests {
    let directory: TemporaryDirectory
    var file: URL { directory.file("cookies.db") }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-cookies") }

    private func cookie(_ name: String, _ value: String = "x", lasts: TimeInterval? = 1000) -> Cookie {
        Cookie(
            name: name, value: value, domain: "www.example.org", isHostOnly: false, path: "/p", isSecure: true,
            isHTTPOnly: true, sameSite: .strict, expires: lasts.map { Date(timeIntervalSinceNow: $0) })
    }

    private func names(_ store: CookieStore) -> [String] { store.cookies.map(\.name).sorted() }

    static func program() throws -> String {
        let tests = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        return tests.deletingLastPathComponent().appendingPathComponent("StoreProgram").path
    }

    @Test(
        "a store reads complete cookies from its file, but session cookies only if it keeps them",
        arguments: [true, false])
    func reopen(_ keepsSessionCookies: Bool) throws {
        do {
            let store = try CookieStore(file: file, keepsSessionCookies: keepsSessionCookies)
            store.setCookie(cookie("a", "é"))
            store.take(
                [[0x62, 0x3D, 0xFF] + Array("; Max-Age=100".utf8)], from: try place("http://example.org/"),
                url: try url("http://example.org/"))
            store.setCookie(cookie("s", lasts: nil))
            try store.flush()
            let again = try CookieStore(file: file, keepsSessionCookies: keepsSessionCookies)
            #expect(again.cookies == store.cookies.filter { keepsSessionCookies || $0.expires != nil })
            #expect(
                again.fieldBytes(for: CookieRequest(place: try place("http://example.org/"), site: nil, isSafeMethod: true))
                    == [0x62, 0x3D, 0xFF])
            store.endSession()
            try store.flush()
        }
        #expect(try names(CookieStore(file: file, keepsSessionCookies: true)) == ["a", "b"])
        for name in ["cookies.db", "cookies.db-wal", "cookies.db-shm", "cookies.db.lock"] {
            let mode = try FileManager.default.attributesOfItem(atPath: directory.file(name).path)[.posixPermissions]
            #expect((mode as? NSNumber)?.intValue == 0o600, "\(name)")
        }
    }

    @Test("a store that is released without a flush loses no cookies")
    func released() throws {
        do { try CookieStore(file: file).setCookie(cookie("a")) }
        try eventually("the cookie in the file") { try names(CookieStore(file: file)) == ["a"] }
    }

    @Test("two stores with the same file lose no changes, and the later of two changes wins")
    func twoStores() throws {
        let (one, other) = (try CookieStore(file: file), try CookieStore(file: file))
        one.setCookie(cookie("a", "old"))
        other.setCookie(cookie("b"))
        other.setCookie(cookie("a", "new"))
        // The result does not depend on which store writes first.
        try other.flush()
        try one.flush()
        #expect(names(one) == ["a", "b"])
        try other.flush()
        #expect(one.cookies.first { $0.name == "a" }?.value == "new")
        #expect(other.cookies.first { $0.name == "a" }?.value == "new")
        other.remove(cookie("a"))
        try other.flush()
        // This store has no changes of its own to write.
        try one.flush()
        #expect(names(one) == ["b"])
        one.setCookie(cookie("c"))
        other.removeAll()
        try other.flush()
        try one.flush()
        #expect(names(one) == [])
        one.setCookie(cookie("d"))
        try one.flush()
        try other.flush()
        #expect(names(other) == ["d"])
        other.removeCookies(since: Date(timeIntervalSince1970: 0))
        try other.flush()
        try one.flush()
        #expect(names(one) == [])
        #expect(try names(CookieStore(file: file)) == [])
    }

    @Test("private session cookies are kept even if another store changes a cookie of the same name")
    func ownSessionCookies() throws {
        let (one, other) = (try CookieStore(file: file), try CookieStore(file: file))
        one.setCookie(cookie("s", "one", lasts: nil))
        other.setCookie(cookie("s", "other", lasts: nil))
        try other.flush()
        try one.flush()
        #expect(one.cookies.map(\.value) == ["one"])
        other.remove(cookie("s"))
        try other.flush()
        try one.flush()
        #expect(one.cookies.map(\.value) == ["one"])
        // A persistent cookie is stored in the file, for both stores.
        other.setCookie(cookie("s", "lasting"))
        try other.flush()
        try one.flush()
        #expect(one.cookies.map(\.value) == ["lasting"])
        one.setCookie(cookie("s", "again", lasts: nil))
        try one.flush()
        try other.flush()
        #expect(names(other) == [])
    }

    @Test("a store, even if empty, reads the changes of another store while cookies are looked up")
    func news() throws {
        let (one, other) = (try CookieStore(file: file), try CookieStore(file: file))
        other.setCookie(cookie("a"))
        try other.flush()
        try eventually("the news") { !one.isEmpty }
        #expect(names(one) == ["a"])
        other.setCookie(cookie("b"))
        try other.flush()
        let request = CookieRequest(place: try place("https://www.example.org/p"), site: nil, isSafeMethod: true)
        try eventually("the news") { one.field(for: request) == "a=x; b=x" }
    }

    @Test("a damaged file is set aside, and the cookies in memory are written to a new file")
    func damage() throws {
        let store = try CookieStore(file: file)
        for number in 0..<100 { store.setCookie(cookie("n\(number)", String(repeating: "v", count: 200))) }
        try store.flush()
        // Overwrite pages of an open database behind the back of its connection.
        do { try Database(path: file.path, schema: CookieFile.schema).run("PRAGMA wal_checkpoint(TRUNCATE)") }
        let handle = try FileHandle(forWritingTo: file)
        let size = try handle.seekToEnd()
        try handle.seek(toOffset: 0)
        try handle.write(contentsOf: Data(repeating: 0x99, count: Int(size)))
        try handle.close()
        store.setCookie(cookie("more"))
        try store.flush()
        #expect(store.failure == nil)
        #expect(store.cookies.count == 101)
        #expect(try CookieStore(file: file).cookies.count == 101)
        #expect(FileManager.default.fileExists(atPath: file.path + ".damaged"))
        let other = try directory.write(Data(repeating: 0x41, count: 9000), to: "other.db")
        #expect(try CookieStore(file: other).isEmpty)
        #expect(FileManager.default.fileExists(atPath: other.path + ".damaged"))
    }

    @Test("after arbitrary bytes were overwritten in the file, a store opens or reports an error, and never crashes")
    func randomDamage() throws {
        do {
            let store = try CookieStore(file: file)
            for number in 0..<100 { store.setCookie(cookie("n\(number)", String(repeating: "v", count: 200))) }
            try store.flush()
        }
        // The store closes the file on its own queue. Only then is everything in the file and nothing in its log.
        let log = directory.file("cookies.db-wal").path
        try eventually("the file to be closed") {
            try FileManager.default.attributesOfItem(atPath: log)[.size] as? Int == 0
        }
        let bytes = try Data(contentsOf: file)
        var random = SplitMix64.printingSeed()
        var opened = 0
        for _ in 0..<40 {
            for name in ["cookies.db-wal", "cookies.db-shm"] { unlink(directory.file(name).path) }
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...20, using: &random) {
                damaged[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            try damaged.prefix(Int.random(in: bytes.count / 2...bytes.count, using: &random)).write(to: file)
            guard let store = try? CookieStore(file: file) else { continue }
            opened += 1
            store.setCookie(cookie("new"))
            try? store.flush()
            #expect(names(store).contains("new"))
        }
        #expect(opened > 0)
    }

    @Test("a full disk is reported, and cookies are kept in memory and written when space is available again")
    func fullDisk() throws {
        // Run in a separate process, because the limit applies to the entire process.
        let result = try ProcessRunner.run(try Self.program(), ["cookies", file.path, "full"])
        let full = CookieStoreError.isFull(file.path).description
        #expect(result.status == 0, "\(result.errorText)")
        #expect(result.text.split(separator: "\n") == [full, "51", full, "51", full, "51", "written"].map { Substring($0) })
        #expect(try CookieStore(file: file).cookies.count == 52)
    }

    @Test("a file of another program is rejected and not changed")
    func foreign() throws {
        let result = try ProcessRunner.run("sqlite3", [file.path, "CREATE TABLE cookie (x)"])
        try #require(result.status == 0)
        let before = try Data(contentsOf: file)
        let error = #expect(throws: CookieStoreError.self) { try CookieStore(file: file) }
        guard case .isForeign = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(try Data(contentsOf: file) == before)
        #expect(throws: CookieStoreError.self) { try CookieStore(file: directory.file("none/cookies.db")) }
    }

    @Test("two processes lose neither cookies nor removals")
    func twoProcesses() throws {
        let program = try Self.program()
        let writers = try ["p", "q"].map { prefix in
            try ChildProcess(
                program, ["cookies", file.path, "write", prefix, "100"], directory: directory.url,
                log: directory.file("\(prefix).log"))
        }
        let store = try CookieStore(file: file)
        for number in 0..<100 {
            store.setCookie(cookie("own\(number)"))
            if number % 10 == 0 { try store.flush() }
        }
        try eventually(timeout: 60, "the end of the processes") { writers.allSatisfy { !$0.isRunning } }
        for writer in writers { #expect(writer.exitStatus == 0, "\(writer.output)") }
        try store.flush()
        #expect(store.cookies.count == 300)
        let removal = try ProcessRunner.run(program, ["cookies", file.path, "remove", "p7"])
        #expect(removal.status == 0, "\(removal.errorText)")
        try store.flush()
        #expect(store.cookies.count == 299)
        let list = try ProcessRunner.run(program, ["cookies", file.path, "list"])
        #expect(list.text.split(separator: "\n").count == 299, "\(list.errorText)")
    }

    @Test("a process that is killed at any time leaves an intact file with everything it has written")
    func killed() throws {
        let program = try Self.program()
        var random = SplitMix64.printingSeed()
        let rounds = ProcessInfo.processInfo.environment["CONVOY_STORE_KILLS"].flatMap { Int($0) } ?? 8
        for round in 0..<rounds {
            let log = directory.file("\(round).log")
            // Use no more hosts than the store has room for.
            let prefix = "k\(round % 20)x"
            let writer = try ChildProcess(
                program, ["cookies", file.path, "write", prefix], directory: directory.url, log: log)
            let goal = Int.random(in: 4...400, using: &random)
            try eventually(timeout: 30, "\(goal) cookies") { writer.output.split(separator: "\n").count >= goal }
            kill(writer.id, SIGKILL)
            try eventually("its end") { !writer.isRunning }
            let last = try #require(writer.output.split(separator: "\n").last.flatMap { Int($0) })
            let check = try ProcessRunner.run("sqlite3", [file.path, "PRAGMA integrity_check"])
            #expect(check.text == "ok\n", "\(check.errorText)")
            let store = try CookieStore(file: file)
            let value = store.cookies.first { $0.name == "\(prefix)\(last % 100)" }.flatMap { Int($0.value) }
            #expect(value == last || value == last + 100)
        }
        #expect(!FileManager.default.fileExists(atPath: file.path + ".damaged"))
    }
}
