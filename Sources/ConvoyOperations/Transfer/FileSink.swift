import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A sink that writes a body to a file, either in place, or next to its destination, followed by a rename when the
/// response is accepted.
///
/// The file is not created or changed before the first byte of an accepted response, or the end of an empty response. A
/// file in place on a local disk is usually written directly on the network thread.
package final class FileSink: BodySink, @unchecked Sendable {
    package let fileURL: URL
    package let isProvisional: Bool
    package var opensFile: Bool { true }
    let file: FileWriter
    private let prepare: (@Sendable () throws -> Void)?
    private let didCommit: (@Sendable () throws -> Void)?
    /// The first error, except for a lack of descriptors that has been resolved.
    package private(set) var failure: FileWritingError?
    package private(set) var isOpen = false
    private(set) var isClosed = false
    private var isOnLocalDisk = false
    /// Whether a write has taken so long that further writes must not delay other transfers.
    private var isSlow = false
    private let clock: @Sendable () -> MonotonicTime
    /// Whether the body of a response begins with the next byte.
    private var begins = false
    /// Whether the file contains old bytes, which must be discarded before the next write.
    private var hasOldContents = false
    /// Whether old bytes were discarded.
    private var wasEmptied = false

    /// The maximum duration of a write on the network thread, in nanoseconds. After a longer write, the following
    /// writes run on a worker thread, because a disk that is too slow for the transfer can block a write for a second.
    package static let longestWrite: MonotonicTime = 20_000_000

    /// Whether the next command does not block. False before old contents are discarded, which takes up to half a
    /// second for a file of 1 GiB.
    package var isImmediate: Bool { isOnLocalDisk && !(begins && hasOldContents) && !isSlow }
    /// Whether closing the file does not block. False after old contents were discarded, because some file systems,
    /// such as ext4 and XFS, then write the file to the disk when it is closed.
    package var closesImmediately: Bool { isImmediate && !wasEmptied }

    /// Creates a sink for a file that is written in place.
    convenience init(inPlace fileURL: URL) {
        self.init(fileURL, FileWriter(inPlace: fileURL.path), isProvisional: false)
    }

    /// Creates a sink for a file that is written next to its destination, under a unique name of limited length.
    ///
    /// - Parameters:
    ///   - preparing: A closure called before the request is sent, on a thread that may block.
    ///   - didCommit: A closure called when the file has been moved to its destination, on a thread that may block. If
    ///     it throws, the operation fails with its error.
    package convenience init(
        replacing fileURL: URL, calls: FileCalls = FileCalls(), preparing: (@Sendable () throws -> Void)? = nil,
        didCommit: (@Sendable () throws -> Void)? = nil
    ) {
        let name = ".convoy-\(String(UInt64.random(in: 0 ... .max), radix: 36)).part"
        let partial = fileURL.deletingLastPathComponent().appendingPathComponent(name)
        let file = FileWriter(path: fileURL.path, partialPath: partial.path, replaces: true, calls: calls)
        self.init(fileURL, file, isProvisional: true, preparing: preparing, didCommit: didCommit)
    }

    package init(
        _ fileURL: URL, _ file: FileWriter, isProvisional: Bool, preparing: (@Sendable () throws -> Void)? = nil,
        didCommit: (@Sendable () throws -> Void)? = nil,
        clock: @escaping @Sendable () -> MonotonicTime = { NetworkRunLoop.now }
    ) {
        self.fileURL = fileURL
        self.file = file
        self.isProvisional = isProvisional
        prepare = preparing
        self.didCommit = didCommit
        self.clock = clock
    }

    package func open() throws(URLError) {
        guard !isOpen else { return }
        guard !isClosed else { throw URLError(.cannotWriteToFile, url: nil, "The output stream is closed.") }
        try attempt { () throws(FileWritingError) in
            do {
                try prepare?()
            } catch {
                throw FileWritingError(
                    .cannotCreate, fileURL.path, (error as? POSIXError)?.code.rawValue ?? EACCES)
            }
            guard !isProvisional else { return }
            let isThere = try file.openExisting()
            isOnLocalDisk = isThere ? file.isOnLocalDisk : file.isFolderOnLocalDisk
            hasOldContents = (file.plainSize ?? 0) > 0
        }
        isOpen = true
    }

    /// Creates or truncates the file immediately, without waiting for a response. Used by ``FileOutputStream/open()``.
    func openEmpty() throws(URLError) {
        guard !isOpen, !isClosed else { return }
        try attempt { () throws(FileWritingError) in try file.open() }
        isOpen = true
        isOnLocalDisk = file.isOnLocalDisk
        wasEmptied = true
    }

    package func begin(_ response: ResponseHead, discarding count: Int64) {
        begins = true
        if count > 0 { hasOldContents = true }
    }

    package func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        try attempt { () throws(FileWritingError) in
            try makeEmpty()
            let start = clock()
            try file.write(bytes)
            if clock() - start > Self.longestWrite { isSlow = true }
        }
    }

    /// Writes as many bytes as a single system call accepts, and returns their number.
    func writeSome(_ bytes: UnsafeRawBufferPointer) throws(URLError) -> Int {
        var count = 0
        try attempt { () throws(FileWritingError) in count = try file.writeSome(bytes) }
        return count
    }

    /// Creates the file or discards its contents, unless this has already been done for the current body.
    private func makeEmpty() throws(FileWritingError) {
        guard begins else { return }
        if !file.isOpen {
            // Opening must not wait on the network thread, because the file may have been replaced by a pipe.
            try file.open(waits: !isOnLocalDisk)
            isOnLocalDisk = isOnLocalDisk && file.isOnLocalDisk
        } else if hasOldContents {
            try file.rewind()
            wasEmptied = true
        }
        begins = false
        hasOldContents = false
    }

    /// Discards all bytes in the file.
    func rewind() throws(URLError) { try attempt { () throws(FileWritingError) in try file.rewind() } }

    package func synchronize() throws(URLError) {
        try attempt { () throws(FileWritingError) in
            try makeEmpty()
            try file.synchronize()
        }
    }

    package func commit() throws {
        try attempt { () throws(FileWritingError) in
            try makeEmpty()
            try file.commit()
        }
        isClosed = true
        try didCommit?()
    }

    package func close() throws(URLError) {
        isClosed = true
        try attempt(.cannotCloseFile) { () throws(FileWritingError) in
            try makeEmpty()
            try file.close()
        }
    }

    package func discard() {
        isClosed = true
        file.discard()
    }

    /// Runs a file operation, and stores its error in `failure`.
    private func attempt(
        _ code: URLError.Code = .cannotWriteToFile, _ body: () throws(FileWritingError) -> Void
    ) throws(URLError) {
        do throws(FileWritingError) {
            try body()
            // The operation succeeded, so an earlier lack of descriptors has been resolved.
            if failure?.cause.lacksDescriptor == true { failure = nil }
        } catch {
            if failure?.cause.lacksDescriptor != false { failure = error }
            throw URLError(code, writing: fileURL, url: nil, underlying: error.posixError)
        }
    }
}

extension FileWritingError {
    /// The system error, in the type that operations report.
    package var posixError: POSIXError { POSIXError(POSIXErrorCode(rawValue: cause.code) ?? .EIO) }
}

extension URLError {
    /// Creates the error for a file that cannot be written. Its description contains the path of the file.
    ///
    /// - Parameter url: The URL from which the bytes were received.
    package init(_ code: Code = .cannotWriteToFile, writing file: URL, url: URL?, underlying: any Error) {
        // Foundation's description of a `POSIXError` begins with a meaningless phrase.
        let reason = (underlying as? POSIXError).map { SystemError(code: $0.code.rawValue).text }
        self.init(
            code, url: url, "The file \(file.path) could not be written: \(reason ?? underlying.localizedDescription)",
            underlying: underlying)
    }
}

/// An output stream to a file that can start over, like `OutputStream(url:append: false)` with a `rewind()` method.
///
/// Opening the stream creates the file, or truncates an existing file. An operation creates or truncates the file only
/// with the first response whose body is written to it.
public final class FileOutputStream: OutputStream, RewindableOutputStream {
    /// The URL of the file to write.
    public let fileURL: URL
    let sink: FileSink

    /// Creates a stream without opening it.
    public init(fileURL: URL) {
        self.fileURL = fileURL
        sink = FileSink(inPlace: fileURL)
        super.init(toMemory: ())
    }

    /// Creates a stream that cannot be opened, because a file stream cannot write to memory. `OutputStream` requires
    /// this initializer.
    public required init(toMemory: ()) {
        fileURL = URL(fileURLWithPath: "")
        sink = FileSink(fileURL, FileWriter(inPlace: ""), isProvisional: false)
        super.init(toMemory: ())
    }

    /// The system error, if opening, writing or closing failed.
    public var failure: POSIXError? { sink.failure?.posixError }

    public override var streamStatus: Stream.Status {
        sink.failure != nil ? .error : sink.isClosed ? .closed : sink.isOpen ? .open : .notOpen
    }
    public override var streamError: (any Error)? { failure }
    public override var hasSpaceAvailable: Bool { streamStatus == .open }

    public override func open() { try? sink.openEmpty() }

    public override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
        guard streamStatus == .open else { return -1 }
        return (try? sink.writeSome(UnsafeRawBufferPointer(start: buffer, count: len))) ?? -1
    }

    public override func close() { if sink.isOpen, !sink.isClosed { try? sink.close() } }

    /// Truncates the file to zero bytes and continues writing at its start.
    ///
    /// - Throws: A `POSIXError`.
    public func rewind() throws {
        guard sink.isOpen, !sink.isClosed else { throw POSIXError(.EBADF) }
        do { try sink.rewind() } catch { throw failure ?? POSIXError(.EIO) }
    }
}
