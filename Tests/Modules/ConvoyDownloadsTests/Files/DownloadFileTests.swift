import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

/// The partial file and its journal, with failing or slow system calls.
@Suite struct DownloadFileTests {
    let directory: TemporaryDirectory
    let bytes = [UInt8](repeating: 7, count: 1000)

    init() throws { directory = try TemporaryDirectory(prefix: "convoy-file") }

    var paths: PartialPaths { PartialPaths(destination: directory.file("file").path) }
    var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: directory.url.path)) ?? []).sorted()
    }
    static let both = ["file.convoyjournal", "file.convoypart"]

    func file(_ calls: FileCalls = FileCalls()) -> DownloadFile { DownloadFile(paths, calls: calls) }

    func representation() throws -> Representation {
        Representation(
            url: try #require(URL(string: "http://host/file")), validators: .init(entityTag: "\"1\"", lastModified: nil),
            total: 2000)
    }

    func write(_ file: DownloadFile, at offset: Int64 = 0) throws {
        try bytes.withUnsafeBytes { try file.write($0, at: offset) }
    }

    /// Creates a file with a thousand bytes.
    func begun(_ calls: FileCalls = FileCalls()) throws -> DownloadFile {
        let file = file(calls)
        #expect(try file.open() == nil)
        file.begin(try representation())
        try write(file)
        return file
    }

    func found() throws -> [Range<Int64>] {
        let file = file()
        defer { file.close() }
        return try file.open()?.written.ranges ?? []
    }

    func descriptors() -> [String] {
        ProcessMeters.descriptorTargets.filter { $0.contains(directory.url.path) }
    }

    /// Creates a file with a thousand bytes claimed by its journal.
    func claimed(_ calls: FileCalls = FileCalls()) throws -> DownloadFile {
        let file = try begun(calls)
        file.synchronize()
        return file
    }

    @Test func `the available space is known before and after the file is opened`() throws {
        #expect(try #require(file().availableSpace) > 0)
        let file = try begun()
        defer { file.close() }
        #expect(try #require(file.availableSpace) > 0)
    }

    @Test func `the next download finds the synchronized bytes`() throws {
        let file = try claimed()
        try write(file, at: 1000)
        file.close()
        #expect(names == Self.both)
        #expect(try found() == [0..<1000])
    }

    @Test func `bytes that were written but not synchronized are not kept`() throws {
        try begun().close()
        #expect(names == [])
    }

    @Test func `forgotten ranges are removed from the written ones`() throws {
        let file = try claimed()
        file.forget(100..<200)
        #expect(file.written.ranges == [0..<100, 200..<1000])
        try write(file, at: 1000)
        file.synchronize()
        file.close()
        #expect(try found() == [0..<100, 200..<2000])
    }

    @Test func `forgotten ranges are not claimed even if no bytes were written since`() throws {
        let file = try claimed()
        file.forget(100..<200)
        file.synchronize()
        file.close()
        #expect(try found() == [0..<100, 200..<1000])
    }

    // MARK: Replacing

    func other(_ file: DownloadFile, bytes count: Int) throws {
        let representation = Representation(
            url: try #require(URL(string: "http://host/file")), validators: .init(entityTag: "\"2\"", lastModified: nil),
            total: 3000)
        file.begin(representation)
        try [UInt8](repeating: 8, count: count).withUnsafeBytes { try file.write($0, at: 0) }
    }

    @Test func `claimed bytes are kept until their replacement has more bytes`() throws {
        let file = try claimed()
        try other(file, bytes: 1000)
        file.synchronize()
        #expect(names == ["file.convoyjournal", "file.convoynew", "file.convoypart"])
        file.close()
        #expect(names == Self.both)
        #expect(try found() == [0..<1000])
        let next = self.file()
        #expect(try next.open()?.representation.validators.entityTag == "\"1\"")
        try other(next, bytes: 1001)
        next.synchronize()
        #expect(names == Self.both)
        next.close()
        #expect(try found() == [0..<1001])
        let last = self.file()
        #expect(try last.open()?.representation.validators.entityTag == "\"2\"")
    }

    @Test func `claimed bytes are removed when their replacement is committed`() throws {
        let file = try claimed()
        try other(file, bytes: 10)
        try file.commit(as: directory.file("file").path, replaces: false, synchronizes: false, total: 10)
        #expect(names == ["file"])
        #expect(try Data(contentsOf: directory.file("file")) == Data(repeating: 8, count: 10))
        #expect(descriptors() == [])
    }

    @Test func `a replacement file left by a killed process is removed`() throws {
        try claimed().close()
        try Data("left".utf8).write(to: directory.file("file.convoynew"))
        #expect(try found() == [0..<1000])
        #expect(names == Self.both)
    }

    @Test func `a commit into a removed directory fails with the directory's path`() throws {
        let folder = directory.file("folder")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let path = folder.appendingPathComponent("file").path
        let paths = PartialPaths(destination: path)
        let file = DownloadFile(paths)
        defer { file.close() }
        #expect(try file.open() == nil)
        file.begin(nil)
        try write(file)
        try FileManager.default.removeItem(at: folder)
        #expect {
            try file.commit(as: path, replaces: false, synchronizes: false, total: 1000)
        } throws: { error in
            let error = error as? FileWritingError
            return error?.reason == .cannotWrite && error?.path == folder.path && error?.cause.code == ENOENT
        }
    }

    // MARK: Synchronizing

    @Test(arguments: [EINVAL, ENOSYS, ENOTSUP, EROFS])
    func `unsupported synchronization is an error only if it was requested`(code: Int32) throws {
        let fails: @Sendable (Int32) -> Int32 = { _ in
            errno = code
            return -1
        }
        var calls = FileCalls()
        (calls.synchronizeData, calls.synchronize) = (fails, fails)
        let file = try begun(calls)
        let path = directory.file("file").path
        #expect(throws: FileWritingError.self) {
            try file.commit(as: path, replaces: false, synchronizes: true, total: 1000)
        }
        #expect(names == ["file.convoypart"])
        try file.commit(as: path, replaces: false, synchronizes: false, total: 1000)
        #expect(names == ["file"])
    }

    @Test func `a commit fails after a failed synchronization, even if a later one succeeded`() throws {
        var calls = FileCalls()
        let real = calls
        let isFirst = Locked(true)
        calls.synchronizeData = { descriptor in
            guard isFirst.withLock({ exchange(&$0, false) }) else { return real.synchronizeData(descriptor) }
            errno = EIO
            return -1
        }
        let file = try begun(calls)
        file.synchronize()
        file.synchronize()
        #expect(throws: FileWritingError.self) {
            try file.commit(as: directory.file("file").path, replaces: false, synchronizes: true, total: 1000)
        }
        file.close()
        #expect(try found() == [])
    }

    @Test func `a commit that fails to synchronize leaves no claimed bytes`() throws {
        var calls = FileCalls()
        calls.synchronize = { _ in
            errno = EIO
            return -1
        }
        let file = try begun(calls)
        #expect(throws: FileWritingError.self) {
            try file.commit(as: directory.file("file").path, replaces: false, synchronizes: true, total: 1000)
        }
        file.close()
        #expect(!names.contains("file"))
        #expect(try found() == [])
    }

    @Test func `the next download does not wait for the synchronization of the previous one`() throws {
        let (began, goesOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        var calls = FileCalls()
        let real = calls
        let waits = Locked(false)
        calls.synchronizeData = { descriptor in
            if waits.withLock({ $0 }) {
                began.signal()
                goesOn.wait()
            }
            return real.synchronizeData(descriptor)
        }
        let first = try claimed(calls)
        try write(first, at: 1000)
        waits.withLock { $0 = true }
        let ended = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            first.synchronize()
            ended.signal()
        }
        try began.waitOrThrow()
        first.close()
        #expect(try found() == [0..<1000])
        goesOn.signal()
        try ended.waitOrThrow()
        #expect(descriptors() == [])
    }

    // MARK: Ending

    @Test func `a late synchronization does not rename a file that is being committed`() throws {
        try claimed().close()
        let synchronized = Locked<DownloadFile?>(nil)
        var calls = FileCalls()
        let real = calls
        calls.renameWithoutReplacing = { from, to in
            // Simulate a worker that synchronizes late.
            synchronized.withLock { $0.take() }?.synchronize()
            return real.renameWithoutReplacing(from, to)
        }
        // No synchronization is ever due.
        let file = DownloadFile(paths, calls: calls, clock: { 1 })
        #expect(try file.open()?.written.ranges == [0..<1000])
        try other(file, bytes: 3000)
        synchronized.withLock { $0 = file }
        try file.commit(as: directory.file("file").path, replaces: false, synchronizes: false, total: 3000)
        #expect(names == ["file"])
        #expect(try Data(contentsOf: directory.file("file")) == Data(repeating: 8, count: 3000))
    }

    @Test func `the bytes are synchronized before the file is renamed`() throws {
        let log = Locked<[String]>([])
        var calls = FileCalls()
        let real = calls
        calls.synchronizeData = { descriptor in
            log.withLock { $0.append("synchronized") }
            return real.synchronizeData(descriptor)
        }
        calls.rename = { from, to in
            log.withLock { $0.append("renamed") }
            return real.rename(from, to)
        }
        let file = try begun(calls)
        try file.commit(as: directory.file("file").path, replaces: true, synchronizes: false, total: 1000)
        #expect(log.withLock { $0 } == ["synchronized", "renamed"])
    }

    @Test func `a commit does not remove the journal of the next download`() throws {
        let next = Locked<DownloadFile?>(nil)
        var calls = FileCalls()
        let real = calls
        let (representation, bytes, paths) = (try representation(), bytes, paths)
        calls.renameWithoutReplacing = { from, to in
            let result = real.renameWithoutReplacing(from, to)
            // The name is free, and another download takes it immediately.
            let other = DownloadFile(paths)
            #expect(throws: Never.self) {
                _ = try other.open()
                other.begin(representation)
                try bytes.withUnsafeBytes { try other.write($0, at: 0) }
                other.synchronize()
            }
            next.withLock { $0 = other }
            errno = 0
            return result
        }
        let file = try begun(calls)
        try file.commit(as: directory.file("file").path, replaces: false, synchronizes: false, total: 1000)
        #expect(names == ["file"] + Self.both)
        next.withLock { $0.take() }?.close()
        #expect(try found() == [0..<1000])
    }

    @Test func `a journal entry is never written to a closed descriptor`() throws {
        let (path, journalPath) = (paths.partial, paths.journal)
        let journal = Locked<Int32>(-1)
        let isClosed = Locked(false)
        let isSynchronizing = Locked(false)
        let (writes, closed) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        var calls = FileCalls()
        let real = calls
        calls.open = { opened, flags, mode in
            let descriptor = real.open(opened, flags, mode)
            if opened == journalPath { journal.withLock { $0 = descriptor } }
            return descriptor
        }
        calls.synchronizeData = { descriptor in
            isSynchronizing.withLock { $0 = true }
            return real.synchronizeData(descriptor)
        }
        calls.writeAt = { descriptor, bytes, offset in
            if isSynchronizing.withLock({ $0 }), journal.withLock({ $0 }) == descriptor {
                writes.signal()
                // The time is long enough for a call that does not wait.
                if closed.wait(timeout: .now() + 0.2) == .success { isClosed.withLock { $0 = true } }
            }
            return real.writeAt(descriptor, bytes, offset)
        }
        calls.close = { descriptor in
            if journal.withLock({ $0 }) == descriptor { closed.signal() }
            return real.close(descriptor)
        }
        let file = try begun(calls)
        let ended = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            file.synchronize()
            ended.signal()
        }
        try writes.waitOrThrow()
        try file.commit(as: directory.file("file").path, replaces: false, synchronizes: false, total: 1000)
        try ended.waitOrThrow()
        #expect(!isClosed.withLock { $0 })
        #expect(names == ["file"])
        #expect(path.hasSuffix(PartialPaths.partialSuffix))
    }
}

func exchange<Value>(_ value: inout Value, _ new: Value) -> Value {
    let old = value
    value = new
    return old
}
