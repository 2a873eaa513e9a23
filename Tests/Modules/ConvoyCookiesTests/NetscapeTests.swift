import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies

@Suite struct NetscapeTests {
    let directory: TemporaryDirectory
    var file: URL { directory.file("cookies.txt") }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-netscape") }

    private let cookies = [
        Cookie(name: "a", value: "1", domain: "example.org"),
        Cookie(name: "b", value: "", domain: "example.org", isHostOnly: false, path: "/x y;z", isSecure: true),
        Cookie(
            name: "c", value: "=é \"q\", #", domain: "www.example.org", isHTTPOnly: true,
            expires: Date(timeIntervalSince1970: 1_800_000_000)),
        Cookie(name: "#d", value: "TRUE", domain: "127.0.0.1"),
        Cookie(name: "e", value: "x", domain: "xn--bcher-kva.example", isHostOnly: false, isHTTPOnly: true),
    ]

    /// Returns everything about the cookies that the format can represent.
    private func kept(_ store: CookieStore) -> Set<String> {
        Set(store.cookies.map { "\($0) \($0.value)" })
    }

    @Test("a written file is read again with everything that the format can represent, and is readable only by its owner")
    func roundTrip() throws {
        let store = CookieStore()
        for cookie in cookies { #expect(store.setCookie(cookie)) }
        let left = try store.writeNetscape(to: file)
        #expect(left.isEmpty)
        let other = CookieStore()
        let report = try other.read(netscapeFile: file)
        #expect(report == NetscapeCookieReport(cookieCount: 5))
        #expect(kept(other) == kept(store))
        let attributes = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        #expect(try kept(CookieStore(netscapeFile: file)) == kept(store))
    }

    @Test func `a byte order mark before the first cookie is skipped`() throws {
        try Data("\u{FEFF}example.org\tFALSE\t/\tFALSE\t0\ta\t1\n".utf8).write(to: file)
        let store = CookieStore()
        #expect(try store.read(netscapeFile: file) == NetscapeCookieReport(cookieCount: 1))
        #expect(store.cookies.map(\.name) == ["a"])
    }

    @Test("writing a file returns the cookies that the format cannot represent")
    func leftOut() throws {
        let store = CookieStore()
        let tab = Cookie(name: "tab", value: "a\tb", domain: "example.org")
        let nameless = Cookie(name: "", value: "only", domain: "example.org")
        for cookie in [tab, nameless, cookies[0]] { #expect(store.setCookie(cookie)) }
        #expect(try Set(store.writeNetscape(to: file).map(\.name)) == ["tab", ""])
        #expect(try CookieStore(netscapeFile: file).cookies.map(\.name) == ["a"])
    }

    @Test("invalid lines are reported and skipped")
    func badLines() throws {
        let text = [
            "# Netscape HTTP Cookie File", "", "example.org\tFALSE\t/\tFALSE\t0\ta\t1\r", "no tabs at all",
            "example.org\tMAYBE\t/\tFALSE\t0\tb\t1", "example.org\tFALSE\t/\tFALSE\t-1\tc\t1",
            ".co.uk\tTRUE\t/\tFALSE\t0\td\t1", "#HttpOnly_.example.org\tTRUE\t/\tTRUE\t99999999999999999999\te\t1",
            "a..b\tFALSE\t/\tFALSE\t0\tf\t1", "example.org\tFALSE\t/\tFALSE\t0\tg\t1\t2",
            "example.org\tfalse\t/\tFALSE\t0\th",
            "example.org\tFALSE\tx\tFALSE\t0\ti\t1", "example.org\tFALSE\t/\tFALSE\t1\tended\t1",
        ].joined(separator: "\n")
        try directory.write(Data(text.utf8) + Data([0x0A, 0xFF, 0x00, 0x09]), to: "cookies.txt")
        let store = CookieStore()
        let report = try store.read(netscapeFile: file)
        #expect(report == NetscapeCookieReport(cookieCount: 4, badLines: [4, 5, 6, 9, 10, 14], refusedLines: [7, 12]))
        #expect(store.cookies.map(\.name) == ["a", "e", "h"])
        #expect(throws: CookieStoreError.self) { try store.read(netscapeFile: directory.file("none")) }
        #expect(throws: CookieStoreError.self) { try store.read(netscapeFile: directory.url) }
        #expect(throws: CookieStoreError.self) { try store.writeNetscape(to: directory.file("none/x")) }
    }

    @Test("curl reads written files, and a store reads curl's files")
    func curl() throws {
        let store = CookieStore()
        for cookie in cookies { #expect(store.setCookie(cookie)) }
        try store.writeNetscape(to: file)
        let copy = directory.file("curl.txt")
        // No server listens at this port. curl reads one file, and writes the other when it exits.
        let result = try ProcessRunner.run(
            "curl", ["-s", "--noproxy", "*", "-b", file.path, "-c", copy.path, "http://127.0.0.1:1/"])
        try #require(result.status == 7, "\(result.errorText)")
        let other = CookieStore()
        let report = try other.read(netscapeFile: copy)
        #expect(report.badLines == [])
        #expect(kept(other) == kept(store))
    }

    @Test("concurrent writers of a file wait for each other")
    func writers() throws {
        let store = CookieStore()
        for cookie in cookies { #expect(store.setCookie(cookie)) }
        let failures = Locked<[CookieStoreError]>([])
        let file = file
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            for _ in 0..<20 {
                do throws(CookieStoreError) {
                    try store.writeNetscape(to: file)
                } catch {
                    failures.withLock { $0.append(error) }
                }
            }
        }
        #expect(failures.withLock { $0 } == [])
        #expect(try kept(CookieStore(netscapeFile: file)) == kept(store))
    }
}
