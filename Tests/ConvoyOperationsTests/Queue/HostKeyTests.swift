import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Synchronization
import Testing

@testable import ConvoyOperations

struct HostKeyTests {
    @Test(arguments: [
        ("http://example.com/a", "example.com"), ("HTTP://Example.COM", "example.com"),
        ("https://example.com:8443?x", "example.com:8443"), ("http://example.com:080/", "example.com"),
        ("http://example.com:443/", "example.com:443"),
        ("http://example.com:/", "example.com"), ("http://user:81@example.com:82/", "example.com:82"),
        ("http://user:81@x/", "x"), ("http://[::1]:80/", "[::1]"), ("https://[0:0::1]:80/", "[::1]:80"),
        ("http://a_b.example/", "a_b.example"),
        ("http://%41b.example/", "ab.example"), ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://example.com#f", "example.com"), ("http://a.example./", "a.example."), ("http://h:0/", "h:0"),
        ("http://127.0.0.1:8080/x?y#z", "127.0.0.1:8080"), ("https://h:443", "h"), ("https://h:80", "h:80"),
    ])
    func `the key of a URL is its lowercase host, with the port unless it is the default`(
        text: String, name: String
    ) throws {
        let url = try #require(URL(string: text))
        let key = try #require(HostKey.of(url))
        #expect(key.name == name)
        #expect(HostKey.of(url, guess: key) === key)
        #expect(HostKey.of(url, guess: HostKey.named("other")) === key)
        #expect(HostKey.named(name) === key)
    }

    @Test(arguments: ["file:///x", "mailto:a@b", "data:,x://y/z", "x/y", "//h/x", "ftp://h/", "http://h:65536/"])
    func `a URL without a host has no key`(text: String) throws {
        #expect(HostKey.of(try #require(URL(string: text))) == nil)
    }

    @Test func `a URL does not match a host whose name has the same prefix`() throws {
        let guess = HostKey.named("example.com")
        for text in ["http://example.com:81/", "http://example.com.evil/", "http://example.com@evil/", "http://example.co/"]
        {
            let url = try #require(URL(string: text))
            #expect(HostKey.of(url, guess: guess) !== guess)
            #expect(HostKey.of(url, guess: guess) === HostKey.of(url))
        }
    }

    @Test func `all spellings of a host share one key`() throws {
        for (hosts, name) in [
            (Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost"), (Spelling.loopback6, "[::1]"),
            (Spelling.international, "xn--bcher-kva.example"),
        ] {
            let key = HostKey.named("\(name):8080")
            for text in Spelling.urls(Spelling.http + Spelling.https, hosts, port: 8080, "/x") {
                guard let url = URL(string: text) else { continue }
                #expect(HostKey.of(url) === key && HostKey.of(url, guess: key) === key, "\(text)")
            }
        }
        // The same port cannot be the default of two schemes.
        let guess = HostKey.named("h:80")
        #expect(HostKey.of(try #require(URL(string: "http://h:80/")), guess: guess)?.name == "h")
        #expect(HostKey.of(try #require(URL(string: "https://h:80/")), guess: guess) === guess)
    }

    @Test func `a request whose URL is replaced before it runs uses the key of the new host`() throws {
        let operation = ScheduledOperation()
        for name in ["a.example", "b.example", "a.example", "c.example:81"] {
            let url = try #require(URL(string: "http://\(name)/x"))
            #expect(operation.hostKey(of: url)?.name == name)
        }
        #expect(operation.hostKey(of: nil) == nil)
    }

    @Test func `unreferenced keys are forgotten, and a referenced key stays unique for its name`() {
        let held = (0..<100).map { HostKey.named("held-\($0).example") }
        for number in 0..<5_000 { _ = HostKey.named("loose-\(number).example") }
        #expect(HostKey.count < 2_000)
        for (number, key) in held.enumerated() { #expect(HostKey.named("held-\(number).example") === key) }
    }

    @Test func `concurrent threads receive the same key for a name while keys are created and released`() {
        let wrong = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for round in 0..<5_000 {
                let name = "shared-\(round % 300).example"
                let key = HostKey.named(name)
                _ = HostKey.named("own-\(thread)-\(round).example")
                if key.name != name || HostKey.named(name) !== key { wrong.add(1, ordering: .relaxed) }
            }
        }
        #expect(wrong.load(ordering: .relaxed) == 0)
    }

    @Test func `a queue forgets unused hosts, except those with operations or a closed gate`() {
        var table = HostTable()
        let keys = (0..<400).map { HostKey.named("table-\($0).example") }
        let used = keys.prefix(10).map { table.index(of: $0) }
        for index in used { table.join(index) }
        let gated = table.index(of: keys[10])
        let isClosed = table.closeGate(of: gated, until: 5)
        #expect(isClosed)
        for key in keys.dropFirst(11) {
            let index = table.index(of: key)
            #expect(table.knownIndex(of: key) == index && table[index].key === key)
            for _ in 0..<2 { table.join(index) }
            for _ in 0..<2 { table.leave(index) }
        }
        #expect(table.hosts.count <= 160)
        #expect(used == keys.prefix(10).map { table.knownIndex(of: $0) })
        #expect(table.knownIndex(of: keys[10]) == gated && table.gated == [gated])
        table.openGate(of: gated)
        for index in used { table.leave(index) }
        #expect(table.gated.isEmpty && table.hosts.allSatisfy { $0.members == 0 })
    }

    @Test func `two tables that share a host each keep their own index for it`() {
        var first = HostTable()
        var second = HostTable()
        let (a, b) = (HostKey.named("a.example"), HostKey.named("b.example"))
        let indices = [first.index(of: a), first.index(of: b), second.index(of: b), second.index(of: a)]
        #expect(indices == [1, 2, 1, 2])
        for _ in 0..<3 {
            let found = [first.index(of: a), first.index(of: b), second.index(of: b), second.index(of: a)]
            #expect(found == indices)
        }
        let none = first.index(of: nil)
        #expect(none == 0)
    }
}
