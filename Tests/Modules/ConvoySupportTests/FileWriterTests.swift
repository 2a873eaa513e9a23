import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoySupport

/// Partial files when system calls fail.
@Suite struct FileWriterTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var path: String { directory.file("file").path }
    private var partial: String { path + ".part" }

    private func writer(replaces: Bool = false, _ calls: FileCalls = FileCalls()) -> FileWriter {
        FileWriter(path: path, partialPath: partial, replaces: replaces, calls: calls)
    }

    private func write(_ text: String, to writer: FileWriter) throws(FileWritingError) {
        try writer.open()
        do {
            try Array(text.utf8).withUnsafeBytes { try writer.write($0) }
        } catch let error as FileWritingError {
            throw error
        } catch {
            Issue.record(error)
        }
    }

    private func put(_ text: String, at path: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }
    private func text(at path: String) -> String? { try? String(contentsOfFile: path, encoding: .utf8) }

    private var names: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: directory.url.path).sorted()) ?? []
    }

    /// Fails a call with a system error.
    private static func failing(_ code: Int32) -> Int32 {
        errno = code
        return -1
    }

    @Test(arguments: [true, false])
    func `a file gets its name when committed, and leaves nothing otherwise`(commits: Bool) throws {
        var file: FileWriter? = writer()
        if let file {
            try write("new", to: file)
            #expect(names == ["file.part"])
            if commits { try file.commit() }
        }
        file = nil
        #expect(names == (commits ? ["file"] : []))
    }

    @Test func `a file that was never opened is committed as an empty file, once`() throws {
        let file = writer()
        try file.commit()
        #expect(text(at: path) == "")
        #expect(throws: FileWritingError.self) { try file.commit() }
        #expect(throws: FileWritingError.self) { try file.open() }
        #expect(names == ["file"])
    }

    @Test func `a file that appears in the meantime is not replaced unless permitted`() throws {
        for replaces in [false, true] {
            let file = writer(replaces: replaces)
            try write("new", to: file)
            try put("theirs", at: path)
            if replaces {
                try file.commit()
            } else {
                let error = #expect(throws: FileWritingError.self) { try file.commit() }
                #expect(error?.reason == .exists)
                file.discard()
            }
            #expect(text(at: path) == (replaces ? "new" : "theirs"))
            #expect(names == ["file"])
        }
    }

    @Test(arguments: [EINVAL, ENOSYS, ENOTSUP], [0, EPERM, ENOTSUP])
    func `a commit works without renameat2, and without hard links too`(
        rename: Int32, link: Int32
    ) throws {
        var calls = FileCalls()
        calls.renameWithoutReplacing = { _, _ in Self.failing(rename) }
        if link != 0 { calls.link = { _, _ in Self.failing(link) } }
        let file = writer(calls)
        try write("new", to: file)
        try file.commit()
        #expect(text(at: path) == "new")
        #expect(names == ["file"])

        let second = writer(calls)
        try write("second", to: second)
        #expect(throws: FileWritingError.self) { try second.commit() }
        second.discard()
        #expect(text(at: path) == "new")
        #expect(names == ["file"])
    }

    @Test(arguments: [ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL], [true, false])
    func `a partial file can be written and replaced without file locks`(
        code: Int32, isThere: Bool
    ) throws {
        var calls = FileCalls()
        calls.lock = { _ in Self.failing(code) }
        if isThere { try put("an old and longer text", at: partial) }
        let file = writer(replaces: isThere, calls)
        try write("new", to: file)
        try file.commit()
        #expect(text(at: path) == "new")
        #expect(names == ["file"])
    }

    @Test func `without locks, a writer that has lost its partial file commits nothing`() throws {
        var calls = FileCalls()
        calls.lock = { _ in Self.failing(ENOLCK) }
        let (first, second) = (writer(replaces: true, calls), writer(replaces: true, calls))
        try write("first", to: first)
        try write("second", to: second)
        let error = #expect(throws: FileWritingError.self) { try first.commit() }
        #expect(error?.reason == .partialIsShared)
        first.discard()
        try second.commit()
        #expect(text(at: path) == "second")
        #expect(names == ["file"])
    }

    @Test func `a partial file belongs to its writer until the commit`() throws {
        let first = writer(replaces: true)
        try write("first", to: first)
        for replaces in [true, false] {
            let second = writer(replaces: replaces)
            let error = #expect(throws: FileWritingError.self) { try second.open() }
            #expect(error?.reason == (replaces ? .partialIsShared : .partialExists))
            second.discard()
        }
        try first.commit()
        #expect(text(at: path) == "first")
        #expect(names == ["file"])
    }

    @Test func `a partial file stays locked while it is closed and renamed`() throws {
        var calls = FileCalls()
        let others = Locked<[FileWritingError.Reason?]>([])
        let partial = partial
        calls.rename = { from, to in
            let other = FileWriter(path: to, partialPath: partial, replaces: true)
            do throws(FileWritingError) {
                try other.open()
                others.withLock { $0.append(nil) }
            } catch {
                others.withLock { $0.append(error.reason) }
            }
            return Glibc.rename(from, to)
        }
        let file = writer(replaces: true, calls)
        try write("new", to: file)
        try file.commit()
        #expect(others.withLock { $0 } == [.partialIsShared])
        #expect(text(at: path) == "new")
    }

    @Test(arguments: [ENOSPC, EIO, EDQUOT])
    func `an error on close prevents the commit`(code: Int32) throws {
        var calls = FileCalls()
        calls.close = { descriptor in
            _ = Glibc.close(descriptor)
            return Self.failing(code)
        }
        try put("old", at: path)
        let file = writer(replaces: true, calls)
        try write("new", to: file)
        let error = #expect(throws: FileWritingError.self) { try file.commit() }
        #expect(error == FileWritingError(.cannotWrite, partial, code))
        file.discard()
        #expect(text(at: path) == "old")
        #expect(names == ["file"])
    }

    @Test func `a file is committed even without a spare descriptor`() throws {
        var calls = FileCalls()
        calls.duplicate = { _ in Self.failing(EMFILE) }
        let file = writer(calls)
        try write("new", to: file)
        try file.commit()
        #expect(text(at: path) == "new")
    }

    @Test func `each failing system call leaves nothing behind and changes no other file`() throws {
        let fails: [(String, (inout FileCalls) -> Void)] = [
            ("open", { $0.open = { _, _, _ in Self.failing(EMFILE) } }),
            ("write", { $0.write = { _, _ in Int(Self.failing(ENOSPC)) } }),
            ("write nothing", { $0.write = { _, _ in 0 } }),
            ("lock", { $0.lock = { _ in Self.failing(EWOULDBLOCK) } }),
            ("close", { $0.close = { Glibc.close($0) == 0 ? Self.failing(EIO) : -1 } }),
            ("rename", { $0.rename = { _, _ in Self.failing(EACCES) } }),
        ]
        for (name, fail) in fails {
            try put("old", at: path)
            var calls = FileCalls()
            fail(&calls)
            do {
                let file = writer(replaces: true, calls)
                #expect(throws: FileWritingError.self, "\(name)") {
                    try write("new", to: file)
                    try file.commit()
                }
            }
            #expect(text(at: path) == "old", "\(name)")
            // The holder of the lock removes a partial file.
            #expect(names == (name == "lock" ? ["file", "file.part"] : ["file"]), "\(name)")
        }
    }

    @Test func `a partial file that is a link, a pipe or another file's hard link is not used`() throws {
        try put("theirs", at: path + ".theirs")
        for make in [
            { symlink("file.theirs", $0) }, { link($0.replacing(".part", with: ".theirs"), $0) }, { mkfifo($0, 0o600) },
        ] as [(String) -> Int32] {
            try #require(make(partial) == 0)
            let file = writer(replaces: true)
            #expect(throws: FileWritingError.self) { try file.open() }
            file.discard()
            #expect(names == ["file.part", "file.theirs"])
            #expect(text(at: path + ".theirs") == "theirs")
            unlink(partial)
        }
    }
}
