import CEpoll
import Foundation

/// An output stream to a file that can start over: `OutputStream(url:append: false)`, and `rewind()`.
///
/// The file is created when the stream is opened, or truncated if it is there; an operation truncates it only when
/// the first response that belongs into it has come.
public final class FileOutputStream: OutputStream, RewindableOutputStream {
    /// The file that is written.
    public let fileURL: URL
    private var descriptor: Int32 = -1
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
        let truncation = keepsContentsAtOpening ? 0 : O_TRUNC
        repeat {
            descriptor = Glibc.open(fileURL.path, O_WRONLY | O_CREAT | O_CLOEXEC | truncation, 0o666)
        } while descriptor < 0 && errno == EINTR
        if descriptor < 0 { return fail() }
        status = .open
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else { return }
        hasOldContents = information.st_size > 0
        isOnLocalDisk = Self.localFileSystems.contains(UInt64(cepoll_file_system_type(descriptor)))
    }

    /// The magic numbers of `statfs(2)`: ext2 to ext4, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ZFS, bcachefs.
    private static let localFileSystems: Set<UInt64> = [
        0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x8584_58F6, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E,
    ]

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
        hasOldContents = false
    }

    private func fail() {
        failure = POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        status = .error
    }
}
