import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// The files of an earlier download that a download finds.
extension DownloadFileTests {
    @Test(arguments: [EIO, EMFILE, EACCES])
    func `the partial file is kept if its journal cannot be opened`(code: Int32) throws {
        try claimed().close()
        var calls = FileCalls()
        let real = calls
        calls.open = { path, flags, mode in
            guard path.hasSuffix(PartialPaths.journalSuffix) else { return real.open(path, flags, mode) }
            errno = code
            return -1
        }
        let unlucky = file(calls)
        #expect(throws: FileWritingError.self) { try unlucky.open() }
        unlucky.close()
        #expect(names == Self.both)
        #expect(try found() == [0..<1000])
    }

    @Test func `the partial file is kept if its journal cannot be read`() throws {
        try claimed().close()
        var calls = FileCalls()
        calls.readAt = { _, _, _ in
            errno = EIO
            return -1
        }
        let unlucky = file(calls)
        #expect(throws: FileWritingError.self) { try unlucky.open() }
        unlucky.close()
        #expect(descriptors() == [])
        #expect(names == Self.both)
        #expect(try found() == [0..<1000])
    }

    /// The journal could otherwise be mistaken for that of the new partial file.
    @Test func `opening fails if a journal without a partial file cannot be removed`() throws {
        try Data("left".utf8).write(to: URL(fileURLWithPath: paths.journal))
        var calls = FileCalls()
        let (real, path) = (calls, paths.journal)
        calls.unlink = { removed in
            guard removed == path else { return real.unlink(removed) }
            errno = EACCES
            return -1
        }
        let unlucky = file(calls)
        #expect {
            try unlucky.open()
        } throws: { error in
            let error = error as? FileWritingError
            return error?.reason == .cannotCreate && error?.path == path && error?.cause.code == EACCES
        }
        unlucky.close()
        let next = file()
        #expect(try next.open() == nil)
        #expect(!names.contains("file.convoyjournal"))
        next.close()
    }

    @Test func `a partial file removed while it is opened is created again`() throws {
        try claimed().close()
        var calls = FileCalls()
        let (real, path) = (calls, paths.partial)
        let isFirst = Locked(true)
        calls.open = { opened, flags, mode in
            let descriptor = real.open(opened, flags, mode)
            let isOurs = opened == path && descriptor >= 0 && isFirst.withLock { exchange(&$0, false) }
            if isOurs { unlink(path) }
            return descriptor
        }
        let second = file(calls)
        #expect(try second.open() == nil)
        second.begin(try representation())
        try write(second)
        second.synchronize()
        second.close()
        #expect(try found() == [0..<1000])
    }

    /// The user of the old file is unknown, so the file stays unchanged, without its name.
    @Test func `a partial file that cannot be locked is replaced by a new one`() throws {
        try claimed().close()
        let user = try FileHandle(forReadingFrom: URL(fileURLWithPath: paths.partial))
        var calls = FileCalls()
        calls.lock = { _ in
            errno = ENOLCK
            return -1
        }
        let second = file(calls)
        #expect(try second.open() == nil)
        second.begin(try representation())
        try write(second, at: 1000)
        try second.commit(as: directory.file("file").path, replaces: false, synchronizes: false, total: 2000)
        #expect(names == ["file"])
        #expect(try user.readToEnd() == Data(bytes))
    }

    @Test func `an interrupted read of the journal is retried`() throws {
        try claimed().close()
        var calls = FileCalls()
        let real = calls
        let count = Locked(0)
        calls.readAt = { descriptor, bytes, offset in
            let number = count.withLock { count in
                count += 1
                return count
            }
            let result = number == 1 ? -1 : real.readAt(descriptor, bytes, offset)
            // A successful call leaves the previous error in errno.
            errno = number < 10 ? EINTR : 0
            return result
        }
        #expect(try file(calls).open()?.written.ranges == [0..<1000])
        #expect(count.withLock { $0 } < 10)
    }

    @Test func `the journal of a committed file is removed, unless a partial file or another file exists`() throws {
        // The process is killed after the rename, before it removes the journal.
        var calls = FileCalls()
        calls.unlink = { _ in -1 }
        let file = try claimed(calls)
        try write(file, at: 1000)
        let destination = directory.file("file").path
        try file.commit(as: destination, replaces: false, synchronizes: false, total: 2000)
        #expect(names == ["file", "file.convoyjournal"])

        let other = directory.file("other")
        try Data(count: 2000).write(to: other)
        #expect(self.file().removeJournal(ofCommittedFileAt: other.path) == nil)
        try FileManager.default.moveItem(at: other, to: directory.file("file.convoypart"))
        #expect(self.file().removeJournal(ofCommittedFileAt: destination) == nil)
        #expect(names == ["file"] + Self.both)

        try FileManager.default.removeItem(at: directory.file("file.convoypart"))
        #expect(self.file().removeJournal(ofCommittedFileAt: destination) == (try representation().place))
        #expect(names == ["file"])
        #expect(self.file().removeJournal(ofCommittedFileAt: destination) == nil)
    }
}
