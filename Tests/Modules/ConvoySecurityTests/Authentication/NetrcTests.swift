import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoySecurity

/// The .netrc format, as read by curl.
@Suite struct NetrcTests {
    /// Returns the user and password of a host as "user:password".
    private static func found(_ netrc: Netrc, _ host: String, user: String? = nil) -> String? {
        netrc.credential(forHost: host, user: user).map { "\($0.user ?? "nil"):\($0.password ?? "nil")" }
    }

    @Test func `machine names are case-insensitive`() throws {
        let netrc = try Netrc(text: "machine Example.com login ada password p1\nMACHINE ::1 LOGIN b PASSWORD p2\n")
        #expect(Self.found(netrc, "EXAMPLE.com") == "ada:p1" && Self.found(netrc, "example.com.") == "ada:p1")
        #expect(Self.found(netrc, "[::1]") == "b:p2")
        #expect(Self.found(netrc, "www.example.com") == nil && Self.found(netrc, "com") == nil)
        #expect(netrc.credential(forHost: "example.com")?.persistence == .forSession)
    }

    @Test func `the first entry applies, or the first one of the requested user`() throws {
        let netrc = try Netrc(
            text: "machine h login a password 1 machine h login b password 2 machine h login a password 3")
        #expect(Self.found(netrc, "h") == "a:1" && Self.found(netrc, "h", user: "b") == "b:2")
        #expect(Self.found(netrc, "h", user: "a") == "a:1" && Self.found(netrc, "h", user: "c") == nil)
    }

    @Test func `the default applies to hosts without an entry, regardless of its position`() throws {
        let netrc = try Netrc(text: "default login d password 0\nmachine h login a password 1\nmachine empty\n")
        #expect(Self.found(netrc, "h") == "a:1" && Self.found(netrc, "other") == "d:0")
        #expect(Self.found(netrc, "h", user: "d") == nil && Self.found(netrc, "other", user: "x") == nil)
        #expect(Self.found(netrc, "empty") == nil)
    }

    @Test func `a value that an entry omits is empty`() throws {
        let netrc = try Netrc(text: "machine a login token\nmachine b password p")
        #expect(Self.found(netrc, "a") == "token:" && Self.found(netrc, "b") == ":p")
        #expect(Self.found(netrc, "b", user: "u") == "u:p")
    }

    @Test(arguments: [
        "machine h\n\tlogin a\n\tpassword b\n", "machine\nh\nlogin\na\npassword\nb", "machine h login a password b\r\n",
        "# login x\nmachine h # password y\nlogin a password b", "machine h password b login a",
        "machine h login a account c password b", "machine h account login login a password b",
        "machine h login a port 80 password b", #"machine "h" login "a" password "b""#,
        "\u{FEFF}machine h login a password b",
        "macdef init\nmachine h login x password y\n\nmachine h login a password b",
        "machine h login a macdef init\npassword x\nmachine z\n\npassword b",
        "macdef m\r\nmachine h login x\r\n\r\nmachine h login a password b", "machine h login a password b macdef\nlogin",
        "machine h login a password b login c password d", "login x password y machine h login a password b",
    ])
    func `equivalent spellings have the same result`(text: String) throws {
        #expect(Self.found(try Netrc(text: text), "h") == "a:b")
    }

    @Test(arguments: [
        (#""two words""#, "two words"), (#""a\"b\\c""#, #"a"b\c"#), (#""a\tb\nc\rd\e""#, "a\tb\nc\rde"), (#"a"b"#, #"a"b"#),
        (#"a\nb"#, #"a\nb"#), (##""#x""##, "#x"), ("a#b", "a#b"), ("machine", "machine"), (#""""#, ""), ("pä書", "pä書"),
        (##"#x"##, ""),
    ])
    func `a password is read as curl reads it`(written: String, password: String) throws {
        let netrc = try Netrc(text: "machine h login a password \(written)\nmachine i login b password c")
        // A comment extends to the end of the line, and the next word is the password.
        guard !written.hasPrefix("#") else {
            #expect(Self.found(netrc, "h") == "a:machine")
            return
        }
        #expect(Self.found(netrc, "h") == "a:\(password)" && Self.found(netrc, "i") == "b:c")
    }

    @Test(.enabled(if: Nginx.isInstalled, "not installed: \(Nginx.installHint)"))
    func `curl finds the same credentials in the same file`() throws {
        let server = try Nginx()
        let directory = try TemporaryDirectory()
        var texts = [
            "machine 127.0.0.1 login a password b",
            "MACHINE other login x password y\nmachine 127.0.0.1\nlogin a\npassword b",
            #"machine 127.0.0.1 login "a b" password "c\"d\\e""#, #"machine 127.0.0.1 login a\b password "c"d"#,
            ##"machine 127.0.0.1 login a password "#b""##,
            "macdef m\nmachine 127.0.0.1 login x password y\n\nmachine 127.0.0.1 login a password b",
            "machine other login x password y default login a password b", "machine 127.0.0.1 login a",
            "machine 127.0.0.1 password b login a",
            "machine 127.0.0.1 login a password b machine 127.0.0.1 login c password d", "machine other login x password y",
        ]
        // Later curl versions do not recognize a comment after a word, and end a word at a non-ASCII letter.
        if try ProcessRunner.run("curl", ["--version"]).text.contains("libcurl/7.") {
            texts += ["machine 127.0.0.1 login a # password x\npassword b#c", "machine 127.0.0.1 login ä password ü"]
        }
        for text in texts {
            let file = try directory.write(Data(text.utf8), to: "netrc")
            let result = try ProcessRunner.run(
                "curl", ["-sS", "--noproxy", "*", "--netrc-file", file.path, server.url("credentials").absoluteString])
            let credential = try Netrc(text: text).credential(forHost: "127.0.0.1")
            let sent = credential.flatMap { BasicAuthorization.value(user: $0.user ?? "", password: $0.password ?? "") }
            #expect(result.text == "[\(sent ?? "")][]", "\(text)")
        }
    }

    @Test(arguments: [#"""#, #""a"#, "\"a\n\"", #""a\"#, #""a\""#, "\"a\\\n\""])
    func `an unclosed quote is an error with its line`(word: String) {
        #expect(throws: NetrcError.unterminatedQuote(line: 2)) { try Netrc(text: "machine h\nlogin a password \(word)\n") }
    }

    @Test(arguments: ["", "\n", "machine", "machine h login", "machine h password", "default", "macdef", "account", "# x"])
    func `an incomplete entry has no credential`(text: String) throws {
        #expect(try Netrc(text: text).credential(forHost: "h") == nil)
    }

    @Test func `a file is accepted only if no one but its owner can read it`() throws {
        let directory = try TemporaryDirectory()
        let file = try directory.write(Data("machine h login a password b".utf8), to: "netrc")
        for mode in [0o600, 0o400, 0o700, 0o622] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
            #expect(Self.found(try Netrc(contentsOf: file), "h") == "a:b")
        }
        for mode in [0o644, 0o640, 0o604] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
            #expect(throws: NetrcError.readableByOthers(file: file.path)) { try Netrc(contentsOf: file) }
            #expect(Self.found(try Netrc(contentsOf: file, allowingOthersToRead: true), "h") == "a:b")
        }
    }

    @Test func `the error for an unusable file describes the reason`() throws {
        let directory = try TemporaryDirectory()
        let missing = directory.file("none")
        #expect(throws: NetrcError.notFound(file: missing.path)) { try Netrc(contentsOf: missing) }
        let folder = #expect(throws: NetrcError.self) { try Netrc(contentsOf: directory.url) }
        #expect(folder == .unreadable(file: directory.url.path, reason: "Is a directory"))
        func write(_ data: Data) throws -> URL {
            let file = try directory.write(data, to: "netrc")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
            return file
        }
        let latin = try write(Data("machine h login \u{1}".utf8) + Data([0xE4]))
        #expect(throws: NetrcError.notText(file: latin.path)) { try Netrc(contentsOf: latin) }
        let large = try write(Data(repeating: 0x20, count: 1 << 20))
        #expect(try Netrc(contentsOf: large).credential(forHost: "h") == nil)
        _ = try write(Data(repeating: 0x20, count: 1 << 20 + 1))
        #expect(throws: NetrcError.tooLarge(file: large.path)) { try Netrc(contentsOf: large) }
        #expect(throws: NetrcError.tooLarge(file: "")) { try Netrc(text: String(repeating: " ", count: 1 << 20 + 1)) }
    }

    @Test func `the default file is in the home directory, unless a variable overrides it`() {
        #expect(Netrc.standardLocation(in: ["NETRC": "/etc/a netrc", "HOME": "/home/ada"]).path == "/etc/a netrc")
        #expect(Netrc.standardLocation(in: ["NETRC": "", "HOME": "/home/ada"]).path == "/home/ada/.netrc")
        let fallback = Netrc.standardLocation(in: ["HOME": ""])
        #expect(fallback.isFileURL && fallback.lastPathComponent == ".netrc")
        #expect(Netrc.standardLocation == Netrc.standardLocation(in: ProcessInfo.processInfo.environment))
    }

    @Test func `any text is parsed or rejected`() throws {
        var generator = SplitMix64.printingSeed()
        let pieces = [
            "machine", "default", "login", "password", "account", "macdef", " ", " ", "\n", "\r\n", "\"", "\\", "#", "h",
            "é",
            "\u{0}", "\n\n",
        ]
        for _ in 0..<PropertyBudget.rounds(2_000) {
            let text = (0..<Int.random(in: 0...30, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }.joined()
            guard let netrc = try? Netrc(text: text) else { continue }
            _ = netrc.credential(forHost: "h")
            // An empty line ends a macro, and one or two words complete a pending entry, so the entry after it is
            // always found.
            let whole = try Netrc(text: text + "\n\nx y\n\nmachine last login a password b")
            #expect(Self.found(whole, "last") == "a:b")
        }
    }
}
