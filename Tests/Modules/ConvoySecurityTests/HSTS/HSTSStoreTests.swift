import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySecurity

/// HSTS policies, which are stored for the specified time and hosts, and outlive the process.
@Suite struct HSTSStoreTests {
    /// A clock that a test can set.
    private final class Clock: Sendable {
        let seconds = Locked<Int64>(1_000_000)
        func advance(by count: Int64) { seconds.withLock { $0 += count } }
        @Sendable func now() -> Int64 { seconds.withLock { $0 } * 1000 }
    }

    @Test func `a host is known, with its subdomains if it includes them`() {
        let store = HSTSStore()
        store.note("max-age=100; includeSubDomains", fromHost: "Example.COM.")
        store.note("max-age=100", fromHost: "alone.example")
        for host in ["example.com", "EXAMPLE.com", "example.com.", "www.example.com", "a.b.example.com"] {
            #expect(store.requiresTLS(forHost: host), "\(host)")
        }
        #expect(store.requiresTLS(forHost: "alone.example"))
        for host in ["nonexample.com", "com", "example.com.evil", "www.alone.example", "example", "", ".", "example.com.."] {
            #expect(!store.requiresTLS(forHost: host), "\(host)")
        }
    }

    @Test(arguments: ["127.0.0.1", "::1", "[::1]", "[fe80::1%25lo]", "", "a..b", "a b"])
    func `an address is never stored`(_ host: String) {
        let store = HSTSStore()
        #expect(!store.note("max-age=100; includeSubDomains", fromHost: host))
        #expect(!store.requiresTLS(forHost: host))
        #expect(store.hosts.isEmpty)
    }

    @Test func `an entry expires with its max-age, and each response renews it`() {
        let clock = Clock()
        let store = HSTSStore(HSTSRecords(), nil, now: clock.now)
        store.note("max-age=100", fromHost: "a.example")
        clock.advance(by: 99)
        #expect(store.requiresTLS(forHost: "a.example"))
        store.note("max-age=100", fromHost: "a.example")
        clock.advance(by: 99)
        #expect(store.requiresTLS(forHost: "a.example"))
        clock.advance(by: 1)
        #expect(!store.requiresTLS(forHost: "a.example"))
        #expect(store.hosts.isEmpty)
    }

    @Test func `the last valid field of a host applies`() {
        let store = HSTSStore()
        store.note("max-age=100; includeSubDomains", fromHost: "a.example")
        store.note("max-age=100", fromHost: "a.example")
        #expect(!store.requiresTLS(forHost: "b.a.example"))
        store.note("max-age=bad", fromHost: "a.example")
        #expect(store.requiresTLS(forHost: "a.example"))
        store.note("max-age=0", fromHost: "a.example")
        #expect(!store.requiresTLS(forHost: "a.example"))
        // A parent domain that includes the host is not affected.
        store.note("max-age=100; includeSubDomains", fromHost: "example")
        store.note("max-age=100", fromHost: "a.example")
        store.note("max-age=0", fromHost: "a.example")
        #expect(store.requiresTLS(forHost: "a.example"))
        store.remove(host: "example")
        #expect(!store.requiresTLS(forHost: "a.example"))
    }

    @Test func `a domain with many names does not evict other hosts`() {
        let store = HSTSStore(maximumHostCount: 100)
        for host in ["bank.example", "www.mail.example", "shop.example.org"] { store.note("max-age=9999", fromHost: host) }
        for number in 0..<2_000 { store.note("max-age=99999", fromHost: "n\(number).evil.example.net") }
        #expect(store.hosts.count <= 100)
        for host in ["bank.example", "www.mail.example", "shop.example.org", "n1999.evil.example.net"] {
            #expect(store.requiresTLS(forHost: host), "\(host)")
        }
    }

    // MARK: Files

    @Test func `a large file is reduced to the maximum number of hosts`() throws {
        try withFile { file in
            let many = try HSTSStore(file: file)
            for number in 0..<300 { many.note("max-age=9999", fromHost: "n\(number).example.net") }
            try many.save()
            let few = try HSTSStore(file: file, maximumHostCount: 100)
            few.note("max-age=9999", fromHost: "bank.example")
            try few.save()
            #expect((1...100).contains(few.hosts.count))
        }
    }

    private func withFile(_ body: (URL) throws -> Void) throws {
        let directory = try TemporaryDirectory(prefix: "convoy-hsts")
        defer { directory.remove() }
        try body(directory.file("hosts"))
    }

    @Test func `a file keeps the hosts and can be read only by its owner`() throws {
        try withFile { file in
            let first = try HSTSStore(file: file)
            first.note("max-age=1000; includeSubDomains", fromHost: "a.example")
            first.note("max-age=1000", fromHost: "b.example")
            first.note("max-age=1000", fromHost: "c.example")
            first.note("max-age=0", fromHost: "c.example")
            try first.save()
            var facts = stat()
            #expect(stat(file.path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
            #expect(!FileManager.default.fileExists(atPath: "\(file.path).new"))
            let second = try HSTSStore(file: file)
            #expect(second.hosts == first.hosts)
            #expect(second.requiresTLS(forHost: "x.a.example") && !second.requiresTLS(forHost: "x.b.example"))
            #expect(!second.requiresTLS(forHost: "c.example"))
        }
    }

    @Test func `a change is saved automatically`() throws {
        try withFile { file in
            try HSTSStore(file: file).note("max-age=1000", fromHost: "a.example")
            // The file is written even if no reference to the store remains.
            try eventually("the file") { try HSTSStore(file: file).requiresTLS(forHost: "a.example") }
        }
    }

    @Test func `two stores share a file, and the later change wins`() throws {
        try withFile { file in
            let (clock, other) = (Clock(), Clock())
            let one = HSTSStore(HSTSRecords(), HSTSFile(path: file.path), now: clock.now)
            let two = HSTSStore(HSTSRecords(), HSTSFile(path: file.path), now: other.now)
            one.note("max-age=1000", fromHost: "a.example")
            one.note("max-age=1000", fromHost: "both.example")
            try one.save()
            other.advance(by: 10)
            two.note("max-age=1000", fromHost: "b.example")
            two.note("max-age=0", fromHost: "both.example")
            try two.save()
            #expect(two.requiresTLS(forHost: "a.example"))
            two.note("max-age=0", fromHost: "both.example")
            try two.save()
            // The records in the first store are older, and are not restored when it is saved.
            try one.save()
            try two.save()
            for store in [one, two] {
                #expect(store.requiresTLS(forHost: "a.example") && store.requiresTLS(forHost: "b.example"))
                #expect(!store.requiresTLS(forHost: "both.example"))
            }
        }
    }

    @Test func `concurrent writers lose no hosts`() throws {
        try withFile { file in
            let stores = try (0..<8).map { _ in try HSTSStore(file: file) }
            DispatchQueue.concurrentPerform(iterations: 8) { index in
                for number in 0..<10 {
                    stores[index].note("max-age=1000", fromHost: "n\(number).s\(index).example")
                    do { try stores[index].save() } catch { Issue.record(error) }
                }
            }
            #expect(try HSTSStore(file: file).hosts.count == 80)
        }
    }

    @Test func `curl's file is read and keeps its format`() throws {
        try withFile { file in
            let text = """
                # Your HSTS cache. https://curl.se/docs/hsts.html
                .a.example "29991231 23:59:59"
                b.example "unlimited"
                old.example "20200101 00:00:00"

                """
            try Data(text.utf8).write(to: file)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
            let store = try HSTSStore(file: file)
            #expect(store.hosts.map(\.name) == ["a.example", "b.example"])
            #expect(store.requiresTLS(forHost: "x.a.example") && !store.requiresTLS(forHost: "x.b.example"))
            store.note("max-age=0", fromHost: "b.example")
            store.note("max-age=1000", fromHost: "c.example")
            try store.save()
            let lines = String(decoding: try Data(contentsOf: file), as: UTF8.self).split(separator: "\n")
            #expect(lines.count == 3 && lines[0].hasPrefix("# ") && lines[1] == ".a.example \"29991231 23:59:59\"")
            #expect(lines[2].hasPrefix("c.example \"20"))
            #expect(try HSTSStore(file: file).hosts.map(\.name) == ["a.example", "c.example"])
        }
    }

    @Test(arguments: [
        ("garbage", 1), ("a.example 20991231\n", 1), ("a.example \"2099-12-31 00:00:00\"\n", 1), ("\n", 1),
        ("Convoy-HSTS 2\n", 1), ("Convoy-HSTS 1", 1), ("Convoy-HSTS 1\na.example 1 1", 2),
        ("Convoy-HSTS 1\na.example 1\n", 2), ("Convoy-HSTS 1\na.example 99999999999 1 -\nb.example x 1 -\n", 3),
        ("Convoy-HSTS 1\nA.example 1 1 -\n", 2), ("Convoy-HSTS 1\n127.0.0.1 1 1 -\n", 2),
        ("Convoy-HSTS 1\na.example -1 1 -\n", 2), ("Convoy-HSTS 1\n\u{0}\n", 2), ("Convoy-HSTS 1\n\n", 2),
    ])
    func `a damaged file is an error and is not changed`(_ text: String, _ line: Int) throws {
        try withFile { file in
            try Data(text.utf8).write(to: file)
            #expect(throws: HSTSStoreError.isDamaged(file.path, line: line)) { try HSTSStore(file: file) }
            let store = HSTSStore(HSTSRecords(), HSTSFile(path: file.path))
            store.note("max-age=1000", fromHost: "a.example")
            #expect(throws: HSTSStoreError.isDamaged(file.path, line: line)) { try store.save() }
            #expect(store.savingFailure == .isDamaged(file.path, line: line))
            #expect(try Data(contentsOf: file) == Data(text.utf8))
        }
    }

    @Test func `opening an unreadable file and saving to an unwritable one fail`() throws {
        try withFile { file in
            try FileManager.default.createDirectory(at: file, withIntermediateDirectories: false)
            #expect(throws: HSTSStoreError.self) { try HSTSStore(file: file) }
            let missing = try HSTSStore(file: URL(fileURLWithPath: "/nonexistent/hosts"))
            missing.note("max-age=1000", fromHost: "a.example")
            #expect(throws: HSTSStoreError.self) { try missing.save() }
            #expect(missing.savingFailure != nil)
            #expect(missing.requiresTLS(forHost: "a.example"))
        }
    }

    @Test func `an empty file has no hosts`() throws {
        try withFile { file in
            try Data().write(to: file)
            #expect(try HSTSStore(file: file).hosts.isEmpty)
        }
    }
}
