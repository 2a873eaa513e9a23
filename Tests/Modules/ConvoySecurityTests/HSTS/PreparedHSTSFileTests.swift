import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySecurity

/// HSTS files, and files next to them, that another user has prepared.
@Suite struct PreparedHSTSFileTests {
    let directory: TemporaryDirectory
    var file: URL { directory.file("hosts") }

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-hsts") }

    private func fill() throws {
        let store = try HSTSStore(file: file)
        store.note("max-age=100000", fromHost: "a.example")
        try store.save()
    }

    private func expectRefusal(_ comment: String) {
        let error = #expect(throws: HSTSStoreError.self, "\(comment)") { try HSTSStore(file: file) }
        guard case .isUnsafe(file.path, let reason) = error else {
            return #expect(Bool(false), "\(comment): \(String(describing: error))")
        }
        #expect(!reason.isEmpty)
    }

    @Test(arguments: [(16 << 20, true), (16 << 20 + 1, false)])
    func `a file of up to 16 MiB is read`(length: Int, isRead: Bool) throws {
        let start = "a.example \"20991231 00:00:00\"\n# "
        let text = start + String(repeating: "x", count: length - start.utf8.count)
        try directory.write(Data(text.utf8), to: "hosts")
        try #require(chmod(file.path, 0o600) == 0)
        guard isRead else {
            let error = #expect(throws: HSTSStoreError.self) { try HSTSStore(file: file) }
            guard case .cannotRead(file.path, _) = error else {
                return #expect(Bool(false), "\(String(describing: error))")
            }
            return
        }
        #expect(try HSTSStore(file: file).requiresTLS(forHost: "a.example"))
    }

    @Test func `a file with extreme dates is read and changed`() throws {
        let text = "Convoy-HSTS 1\na.example \(Int64.max) \(Int64.max) s\nb.example \(Int64.max) \(Int64.max) -\n"
        try directory.write(Data(text.utf8), to: "hosts")
        try #require(chmod(file.path, 0o600) == 0)
        let store = try HSTSStore(file: file)
        store.note("max-age=0", fromHost: "a.example")
        store.note("max-age=100000", fromHost: "b.example")
        try store.save()
        let hosts = try HSTSStore(file: file).hosts
        #expect(hosts.map(\.name) == ["b.example"])
        #expect(hosts.allSatisfy { $0.expires < Date(timeIntervalSinceNow: 200_000) })
    }

    @Test func `the saved file is owned by the current user, and files with another extension are unchanged`() throws {
        try directory.write(Data("mine".utf8), to: "hosts.new")
        try #require(chmod(directory.file("hosts.new").path, 0o666) == 0)
        if geteuid() == 0 { try #require(chown(directory.file("hosts.new").path, 65534, 65534) == 0) }
        try fill()
        #expect(try Data(contentsOf: directory.file("hosts.new")) == Data("mine".utf8))
        var facts = stat()
        #expect(lstat(file.path, &facts) == 0 && facts.st_uid == geteuid() && facts.st_mode & 0o777 == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.url.path).sorted() == ["hosts", "hosts.new"])
    }

    @Test func `a file that others can write to is rejected, for reading and for writing`() throws {
        try fill()
        let store = try HSTSStore(file: file)
        store.note("max-age=100000", fromHost: "b.example")
        for mode in [0o620, 0o602, 0o666] as [mode_t] {
            try #require(chmod(file.path, mode) == 0)
            expectRefusal(String(mode, radix: 8))
            #expect(throws: HSTSStoreError.self) { try store.save() }
        }
        try #require(chmod(file.path, 0o600) == 0)
        try store.save()
        #expect(try HSTSStore(file: file).hosts.map(\.name) == ["a.example", "b.example"])
        guard geteuid() == 0 else { return print("skipped in part: only root can give a file to another user") }
        try #require(chown(file.path, 65534, 65534) == 0)
        expectRefusal("another user's")
    }

    @Test func `the user's own link is followed, and another user's is rejected`() throws {
        try #require(mkdir(directory.file("disk").path, 0o700) == 0)
        try #require(symlink("disk/hosts", file.path) == 0)
        try fill()
        #expect(FileManager.default.fileExists(atPath: directory.file("disk/hosts").path))
        #expect(try HSTSStore(file: file).requiresTLS(forHost: "a.example"))
        try fill()
        guard geteuid() == 0 else { return print("skipped in part: only root can give a link to another user") }
        try #require(lchown(file.path, 65534, 65534) == 0)
        expectRefusal("another user's link")
    }
}
