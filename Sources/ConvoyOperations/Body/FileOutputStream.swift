import ConvoySupport
import Foundation

/// An output stream to a file that can start over: `OutputStream(url:append: false)`, and `rewind()`.
///
/// The file is created when the stream is opened, or truncated if it is there; an operation truncates it only when
/// the first response that belongs into it has come.
public final class FileOutputStream: OutputStream, RewindableOutputStream {
    /// The file that is written.
    public let fileURL: URL
    private let file: FileWriter
    private var status = Stream.Status.notOpen
    /// What the system said when opening, writing or closing failed.
    public private(set) var failure: POSIXError?
    /// Whether `open()` leaves what the file holds, until `rewind()` is called.
    package var keepsContentsAtOpening = false
    /// Whether the file is a regular one on a disk or in the memory of this machine, so that writing does not wait for
    /// another program or another machine. Known when the stream is open.
    package private(set) var isOnLocalDisk = false
    /// Whether it held something when it was opened that has not been truncated.
    package private(set) var hasOldContents = false

    /// A stream that is not open yet.
    public init(fileURL: URL) {
        self.fileURL = fileURL
        file = FileWriter(inPlace: fileURL.path)
        super.init(toMemory: ())
    }

    /// Foundation demands it of every output stream. A file stream writes no memory: opening this one fails.
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

    /// Truncates the file to nothing and goes on from there.
    ///
    /// - Throws: `POSIXError`.
    public func rewind() throws {
        guard file.isOpen else { throw POSIXError(.EBADF) }
        guard attempt({ () throws(FileWritingError) in try file.rewind() }) else { throw failure ?? POSIXError(.EIO) }
        hasOldContents = false
    }

    /// Does something with the file. Returns whether it could be done.
    private func attempt(_ body: () throws(FileWritingError) -> Void) -> Bool {
        do throws(FileWritingError) {
            try body()
            return true
        } catch {
            failure = POSIXError(POSIXErrorCode(rawValue: error.cause.code) ?? .EIO)
            status = .error
            return false
        }
    }
}
