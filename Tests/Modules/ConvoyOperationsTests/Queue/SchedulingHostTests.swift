import ConvoySupport
import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyOperations

struct SchedulingHostTests {
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
        #expect(Target.place(of: url) == name)
    }

    @Test(arguments: ["file:///x", "mailto:a@b", "data:,x://y/z", "x/y", "//h/x", "ftp://h/", "http://h:65536/"])
    func `a URL without a host has no key`(text: String) throws {
        let url = try #require(URL(string: text))
        #expect(Target.place(of: url) == nil)
    }

    @Test func `all spellings of a host share one key`() throws {
        for (hosts, name) in [
            (Spelling.loopback, "127.0.0.1"), (Spelling.localhost, "localhost"), (Spelling.loopback6, "[::1]"),
            (Spelling.international, "xn--bcher-kva.example"),
        ] {
            for text in Spelling.urls(Spelling.http + Spelling.https, hosts, port: 8080, "/x") {
                guard let url = URL(string: text) else { continue }
                #expect(Target.place(of: url) == "\(name):8080", "\(text)")
            }
        }
    }

    @Test func `a request whose URL is replaced before it runs uses the key of the new host`() throws {
        let operation = HTTPRequestOperation(request: URLRequest(url: try #require(URL(string: "http://first.example/"))))
        #expect(operation.schedulingHost == "first.example")
        for name in ["a.example", "b.example", "a.example", "c.example:81"] {
            let url = try #require(URL(string: "http://\(name)/x"))
            operation.changeRequest { $0.url = url }
            #expect(operation.schedulingHost == name)
        }
    }

    @Test func `a queue forgets unused hosts, except those with operations, a closed gate or counted starts`() {
        var table = HostTable()
        let names = (0..<400).map { "table-\($0).example" }
        let used = names.prefix(10).map { table.index(of: $0, now: 9) }
        for index in used { table[index].members = 1 }
        let gated = table.index(of: names[10], now: 9)
        table[gated].gate = 5
        let paced = table.index(of: names[11], now: 9)
        table[paced].startDue = 10
        for name in names.dropFirst(12) {
            let index = table.index(of: name, now: 9)
            #expect(table.knownIndex(of: name) == index && table[index].name == name)
        }
        #expect(table.hosts.count <= 160)
        #expect(used == names.prefix(10).map { table.knownIndex(of: $0) })
        #expect(table.knownIndex(of: names[10]) == gated && table.gated == [gated])
        #expect(table.knownIndex(of: names[11]) == paced)
        table[gated].openGate()
        #expect(table.gated.isEmpty)
        let none = table.index(of: nil, now: 9)
        #expect(none == 0)
    }
}
