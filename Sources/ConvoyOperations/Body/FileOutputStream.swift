import Foundation

/// An output stream to a file that can start over: `OutputStream(url:append: false)`, and `rewind()`.
///
/// The file is created when the stream is opened, or truncated if it is there.
public final class FileOutputStream: OutputStream, RewindableOutputStream {
    /// The file that is written.
    public let fileURL: URL
    private var descriptor: Int32 = -1
    private var status = Stream.Status.notOpen
    /// What the system said when opening, writing or closing failed.
    public private(set) var failure: POSIXError?

    /// A stream that is not open yet.
    public init(fileURL: URL) {
        self.fileURL = fileURL
        super.init(toMemory: ())
    }

    /// Foundation demands it of every output stream. A file stream writes no memory: opening this one fails.
    public required init(toMemory: ()) {
        fileURL = URL(fileURLWithPath: "")
        super.init(toMemory: ())
    }

    deinit {
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
    }

    public override var streamStatus: Stream.Status { status }
    public override var streamError: (any Error)? { failure }
    public override var hasSpaceAvailable: Bool { status == .open }

    public override func open() {
        guard status == .notOpen else { return }
        repeat {
            descriptor = Glibc.open(fileURL.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666)
        } while descriptor < 0 && errno == EINTR
        if descriptor < 0 { fail() } else { status = .open }
    }

    public override func write(_ buffer: UnsafePointer<UInt8>, maxLength len: Int) -> Int {
        guard status == .open else { return -1 }
        var written: Int
        repeat { written = Glibc.write(descriptor, buffer, len) } while written < 0 && errno == EINTR
        if written < 0 { fail() }
        return written
    }

    public override func close() {
        guard descriptor >= 0 else { return }
        let result = Glibc.close(descriptor)
        descriptor = -1
        if result != 0, errno != EINTR { fail() } else if status != .error { status = .closed }
    }

    /// Truncates the file to nothing and goes on from there.
    ///
    /// - Throws: `POSIXError`.
    public func rewind() throws {
        guard descriptor >= 0 else { throw POSIXError(.EBADF) }
        guard ftruncate(descriptor, 0) == 0, lseek(descriptor, 0, SEEK_SET) == 0 else {
            fail()
            throw failure ?? POSIXError(.EIO)
        }
    }

    private func fail() {
        failure = POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        status = .error
    }
}
