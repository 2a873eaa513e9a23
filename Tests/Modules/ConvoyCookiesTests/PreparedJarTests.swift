import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyCookies

/// Cookie files, and files next to them, that another user has prepared.
@Suite struct PreparedJarTests {
    let directory: TemporaryDirectory
    var jar: URL { directory.file("jar") }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-jar") }

    private func store() throws -> CookieStore {
        let store = CookieStore()
        #expect(store.setCookie(Cookie(name: "sid", value: "secret", domain: "example.org")))
        return store
    }

    private func owner(_ url: URL) -> uid_t? {
        var facts = stat()
        return lstat(url.path, &facts) == 0 ? facts.st_uid : nil
    }

    @Test func `an exported file is owned by the current user, and files with another extension are unchanged`() throws {
        try directory.write(Data("mine".utf8), to: "jar.new")
        if geteuid() == 0 { try #require(chown(directory.file("jar.new").path, 65534, 65534) == 0) }
        try #require(chmod(directory.file("jar.new").path, 0o666) == 0)
        #expect(try store().writeNetscape(to: jar).isEmpty)
        #expect(try Data(contentsOf: directory.file("jar.new")) == Data("mine".utf8))
        #expect(owner(jar) == geteuid())
        let mode = try FileManager.default.attributesOfItem(atPath: jar.path)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)
    }

    @Test func `an export does not follow another user's link`() throws {
        guard geteuid() == 0 else { return print("skipped: only root can give a link to another user") }
        try directory.write(Data("mine".utf8), to: "diary")
        try #require(symlink("diary", jar.path) == 0 && lchown(jar.path, 65534, 65534) == 0)
        let error = #expect(throws: CookieStoreError.self) { try store().writeNetscape(to: jar) }
        guard case .isUnsafe = error else { return #expect(Bool(false), "\(String(describing: error))") }
        #expect(try Data(contentsOf: directory.file("diary")) == Data("mine".utf8))
    }

    @Test func `a jar that others can write to is rejected with an error that says what to do`() throws {
        do {
            let store = try CookieStore(file: jar, keepsSessionCookies: true)
            #expect(store.setCookie(Cookie(name: "sid", value: "planted", domain: "example.org")))
            try store.flush()
        }
        try #require(chmod(jar.path, 0o666) == 0)
        let error = #expect(throws: CookieStoreError.self) { try CookieStore(file: jar, keepsSessionCookies: true) }
        guard case .isUnsafe(let path, let reason) = error else {
            return #expect(Bool(false), "\(String(describing: error))")
        }
        #expect(path == jar.path && reason.contains("chmod go-w"), "\(reason)")
        try #require(chmod(jar.path, 0o600) == 0)
        #expect(try CookieStore(file: jar, keepsSessionCookies: true).cookies.count == 1)
        guard geteuid() == 0 else { return print("skipped in part: only root can give a file to another user") }
        try #require(chown(jar.path, 65534, 65534) == 0)
        let other = #expect(throws: CookieStoreError.self) { try CookieStore(file: jar) }
        guard case .isUnsafe = other else { return #expect(Bool(false), "\(String(describing: other))") }
    }
}
