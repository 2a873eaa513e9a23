import ConvoySupport
import Foundation

/// An output stream to a file that can start over: like `OutputStream(url:append: false)`, with `rewind()`.
///
/// Opening the stream creates the file, or truncates an existing one. An operation delays the truncation until the
/// first response whose body goes into the file has arrived.
public final class FileOutputStream: OutputStream, RewindableOutputStream, DirectOutputStream, FileStream {
    /// The file that is written.
    public let fileURL: URL
    private let file: FileWriter
    private var status = Stream.Status.notOpen
    /// The system error, if opening, writing or closing failed.
    public private(set) var failure: POSIXError?
    /// Whether `open()` keeps the file's contents; `rewind()` then truncates them.
    package var keepsContentsAtOpening = false
    /// Known once the stream is open.
    package private(set) var isOnLocalDisk = false
    /// Whether the file had contents when it was opened that have not been truncated since.
    package private(set) var hasOldContents = false

    /// Makes a stream, not open yet.
    public init(fileURL: URL) {
        self.fileURL = fileURL
        file = FileWriter(inPlace: fileURL.path)
        super.init(toMemory: ())
    }

    /// Required by `OutputStream`. A file stream cannot write to memory, so opening this one fails.
    public required init(toMemory: ()) {
        fileURL = URL(fileURLWithPath: "")
        file = FileWriter(inPlace: "")
        super.init(toMemory: ())
    }

    public override var streamStatus: Stream.Status { status }
    public override var streamError: (any Error)? { failure }
    public override var hasSpaceAvailable: Bool { status == .open }

    public override func open() {
        guard status == .notOpen else { return }
        let keeps = keepsContentsAtOpening
        guard attempt({ () throws(FileWritingError) in try file.open(keepsContents: keeps) }) else { return }
        status = .open
        hasOldContents = (file.plainSize ?? 0) > 0
        isOnLocalDisk = file.isOnLocalDisk
    }

    public override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
        guard status == .open else { return -1 }
        var written = -1
        _ = attempt { () throws(FileWritingError) in
            written = try file.writeSome(UnsafeRawBufferPointer(start: buffer, count: len))
        }
        return written
    }

    public override func close() {
        guard file.isOpen else { return }
        if attempt({ () throws(FileWritingError) in try file.close() }), status != .error { status = .closed }
    }

    /// Truncates the file to zero bytes and continues writing at its start.
    ///
    /// - Throws: `POSIXError`.
    public func rewind() throws {
        guard file.isOpen else { throw POSIXError(.EBADF) }
        guard attempt({ () throws(FileWritingError) in try file.rewind() }) else { throw failure ?? POSIXError(.EIO) }
        hasOldContents = false
    }

    /// Runs a file operation and records its failure. Returns whether it succeeded.
    private func attempt(_ body: () throws(FileWritingError) -> Void) -> Bool {
        do throws(FileWritingError) {
            try body()
            return true
        } catch {
            failure = error.posixError
            status = .error
            return false
        }
    }
}
