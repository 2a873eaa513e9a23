import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// Files and directories that another user has prepared or can change.
@Suite struct PrivateFileTests {
    /// The user ID of `nobody`.
    private static let other: uid_t = 65534
    let directory: TemporaryDirectory
    var path: String { directory.file("file").path }

    init() throws { directory = try TemporaryDirectory(prefix: "private") }

    private func put(_ text: String = "old", at path: String? = nil, mode: mode_t = 0o600) throws {
        let path = path ?? self.path
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        try #require(chmod(path, mode) == 0)
    }

    private func text(_ path: String) -> String? {
        (try? Data(contentsOf: URL(fileURLWithPath: path))).map { String(decoding: $0, as: UTF8.self) }
    }

    private func mode(_ path: String) -> mode_t {
        var facts = stat()
        return lstat(path, &facts) == 0 ? facts.st_mode & 0o7777 : 0
    }

    private var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.url.path)) ?? []).sorted()
    }

    /// Gives a file to another user. Returns false if this requires root.
    private func give(_ path: String) throws -> Bool {
        guard geteuid() == 0 else {
            print("skipped: only root can give a file to another user")
            return false
        }
        try #require(lchown(path, Self.other, Self.other) == 0)
        return true
    }

    private func flaw(_ body: () throws(PrivateFile.Failure) -> Void) -> PrivateFileProblem? {
        do throws(PrivateFile.Failure) {
            try body()
            return nil
        } catch {
            guard case .unsafe(let flaw) = error else { return nil }
            return flaw
        }
    }

    private func opening(_ flags: Int32 = O_RDONLY) -> PrivateFileProblem? {
        let opened = flaw { () throws(PrivateFile.Failure) in close(try PrivateFile.open(path, flags)) }
        let examined = flaw { () throws(PrivateFile.Failure) in try PrivateFile.examine(path) }
        #expect(opened == examined)
        return opened
    }

    // MARK: Files

    @Test func `a file is created for its owner only, with any umask`() throws {
        for lost in [0, 0o022, 0o077, 0o277, 0o777] as [mode_t] {
            var calls = FileCalls()
            calls.open = { path, flags, mode in
                // Directories are also opened, in order to synchronize them.
                if flags & O_CREAT != 0 { #expect(mode == 0o600, "the mode is never wider") }
                return Glibc.open(path, flags, mode & ~lost)
            }
            close(try PrivateFile.create(path, calls: calls))
            #expect(mode(path) == 0o600)
            try #require(unlink(path) == 0)
            try PrivateFile.replace(path, with: [1], calls: calls)
            #expect(mode(path) == 0o600)
            try #require(unlink(path) == 0)
        }
    }

    @Test func `a file is created only if none exists, and no link is followed`() throws {
        for make in [
            { try put() }, { try #require(symlink("nowhere", path) == 0) }, { try #require(mkfifo(path, 0o600) == 0) },
        ] {
            try make()
            #expect(throws: PrivateFile.Failure.system(SystemError(code: EEXIST))) { close(try PrivateFile.create(path)) }
            try #require(unlink(path) == 0)
        }
        #expect(names.isEmpty)
    }

    @Test func `a file is checked through its open descriptor`() throws {
        try put()
        #expect(opening() == nil)
        try put(mode: 0o644)
        #expect(opening() == nil)
        for (mode, isTrusted) in [(0o620, false), (0o602, false), (0o666, false), (0o640, true), (0o700, true)]
            as [(mode_t, Bool)]
        {
            try #require(chmod(path, mode) == 0)
            let expected: PrivateFileProblem? = isTrusted ? nil : .writableByOthers(mode: UInt32(S_IFREG | mode))
            #expect(opening() == expected, "\(String(mode, radix: 8))")
        }
        try put()
        try #require(link(path, path + ".link") == 0)
        #expect(opening() == .hardLinked)
        try #require(unlink(path + ".link") == 0)
        if try give(path) { #expect(opening() == .otherOwner(UInt32(Self.other))) }
        try #require(unlink(path) == 0)
        try put(at: path + ".target")
        try #require(symlink("file.target", path) == 0)
        #expect(opening() == .link)
        try #require(unlink(path) == 0 && mkfifo(path, 0o600) == 0)
        // Opening a pipe does not wait for its other end.
        #expect(opening(O_RDWR) == .notRegularFile)
        #expect(opening() == .notRegularFile)
        try #require(unlink(path) == 0 && mkdir(path, 0o700) == 0)
        #expect(opening() == .notRegularFile)
    }

    @Test func `a file that is removed while it is open is still trusted`() throws {
        try put()
        let descriptor = try PrivateFile.open(path)
        defer { close(descriptor) }
        try #require(unlink(path) == 0)
        #expect(FileIdentity(descriptor)?.flaw == nil)
    }

    // MARK: Replacing

    @Test func `a replaced file is readable only by its owner, and other files stay`() throws {
        try put(mode: 0o644)
        try put("mine", at: path + ".new")
        if geteuid() == 0 { try #require(lchown(path + ".new", Self.other, Self.other) == 0) }
        try PrivateFile.replace(path, with: Array("new".utf8))
        #expect(text(path) == "new" && mode(path) == 0o600)
        #expect(text(path + ".new") == "mine")
        #expect(names == ["file", "file.new"])
        var facts = stat()
        #expect(stat(path, &facts) == 0 && facts.st_uid == geteuid())
    }

    @Test func `replacing a file synchronizes the file and its directory, and a failure leaves the old file`() throws {
        let log = Locked<[String]>([])
        var calls = FileCalls()
        calls.synchronize = { descriptor in
            var facts = stat()
            fstat(descriptor, &facts)
            log.withLock { $0.append(facts.st_mode & S_IFMT == S_IFDIR ? "directory" : "file") }
            return fsync(descriptor)
        }
        calls.rename = { old, new in
            log.withLock { $0.append("rename") }
            return Glibc.rename(old, new)
        }
        try PrivateFile.replace(path, with: [1], calls: calls)
        #expect(log.withLock { $0 } == ["file", "rename", "directory"])
        let fails: [(String, (inout FileCalls) -> Void)] = [
            ("open", { $0.open = { _, _, _ in Self.failing(EACCES) } }),
            ("write", { $0.write = { _, _ in Int(Self.failing(ENOSPC)) } }),
            ("mode", { $0.setMode = { _, _ in Self.failing(EPERM) } }),
            ("synchronize", { $0.synchronize = { _ in Self.failing(EIO) } }),
            (
                "close",
                {
                    $0.close = {
                        _ = Glibc.close($0); return Self.failing(EIO)
                    }
                }
            ),
            ("rename", { $0.rename = { _, _ in Self.failing(EXDEV) } }),
        ]
        try put("old")
        for (name, fail) in fails {
            var calls = FileCalls()
            fail(&calls)
            #expect(throws: PrivateFile.Failure.self, "\(name)") { try PrivateFile.replace(path, with: [2], calls: calls) }
            #expect(text(path) == "old", "\(name)")
            #expect(names == ["file"], "\(name)")
        }
    }

    private static func failing(_ code: Int32) -> Int32 {
        errno = code
        return -1
    }

    @Test func `the user's own links are followed, and those of others are not`() throws {
        let folder = directory.file("folder").path
        try #require(mkdir(folder, 0o700) == 0)
        try put(at: "\(folder)/file")
        try #require(symlink("folder/second", path) == 0 && symlink("\(folder)/file", "\(folder)/second") == 0)
        try PrivateFile.replace(path, with: Array("new".utf8))
        #expect(text("\(folder)/file") == "new")
        #expect(mode("\(folder)/file") == 0o600)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder).sorted() == ["file", "second"])
        if try give(path) {
            let error = flaw { () throws(PrivateFile.Failure) in try PrivateFile.replace(path, with: []) }
            #expect(error == .linkOfOther(UInt32(Self.other)))
            #expect(text("\(folder)/file") == "new")
        }
        for place in [folder, "/dev/null"] {
            let error = flaw { () throws(PrivateFile.Failure) in try PrivateFile.replace(place, with: []) }
            #expect(error == .notRegularFile)
        }
        try #require(unlink(path) == 0 && symlink("file", path) == 0)
        #expect(throws: PrivateFile.Failure.system(SystemError(code: ELOOP))) { try PrivateFile.replace(path, with: []) }
    }

    @Test func `concurrent writers leave one complete file and nothing else`() throws {
        let path = path
        DispatchQueue.concurrentPerform(iterations: 16) { number in
            let bytes = [UInt8](repeating: UInt8(number), count: 10_000)
            do { try PrivateFile.replace(path, with: bytes) } catch { Issue.record("\(error)") }
        }
        let data = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(data.count == 10_000 && Set(data).count == 1)
        #expect(names == ["file"])
    }

    // MARK: Directories

    @Test func `a directory is created for its owner only, and an existing one is checked`() throws {
        func making(_ isChosen: Bool = true) -> PrivateFileProblem? {
            flaw { () throws(PrivateFile.Failure) in try PrivateFile.makeDirectory(path, isChosen: isChosen) }
        }
        #expect(making() == nil && mode(path) == 0o700)
        for (mode, isTrusted, isTrustedInside) in [
            (0o700, true, true), (0o755, true, true), (0o775, false, false), (0o757, false, false), (0o777, false, false),
            (0o1777, true, false),
        ] as [(mode_t, Bool, Bool)] {
            try #require(chmod(path, mode) == 0)
            #expect((making() == nil) == isTrusted, "\(String(mode, radix: 8))")
            #expect((making(false) == nil) == isTrustedInside, "\(String(mode, radix: 8))")
        }
        try #require(chmod(path, 0o700) == 0)
        try #require(symlink("file", path + ".link") == 0)
        #expect(
            flaw { () throws(PrivateFile.Failure) in try PrivateFile.makeDirectory(path + ".link", isChosen: true) } == nil)
        #expect(flaw { () throws(PrivateFile.Failure) in try PrivateFile.makeDirectory(path + ".link") } == .link)
        guard try give(path + ".link"), try give(path) else { return }
        let user = UInt32(Self.other)
        #expect(making() == .otherOwner(user))
        #expect(
            flaw { () throws(PrivateFile.Failure) in try PrivateFile.makeDirectory(path + ".link", isChosen: true) }
                == .linkOfOther(user))
        try #require(rmdir(path) == 0)
        try put()
        #expect(making() == .notDirectory)
    }

    // MARK: Partial files

    @Test func `another user's partial file does not become this user's file`() throws {
        try put("theirs", at: path + ".part")
        guard try give(path + ".part") else { return }
        let writer = FileWriter(path: path, partialPath: path + ".part", replaces: true)
        let error = #expect(throws: FileWritingError.self) { try writer.open() }
        #expect(error?.reason == .partialIsShared)
        writer.discard()
        #expect(text(path + ".part") == "theirs" && names == ["file.part"])
    }
}
