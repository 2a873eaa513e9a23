import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation

/// A file to send, with an identity that detects changes.
public struct SourceFile: Sendable, Hashable, Codable {
    /// The file's path.
    public let path: String
    /// The device and inode numbers.
    let device: UInt64, inode: UInt64
    /// The size in bytes.
    public let size: Int64
    /// The time of the last modification, in nanoseconds since 1970.
    let modified: Int64

    /// Records the current state of the file at a URL. Opens the file, so that an unreadable one is detected here.
    ///
    /// - Throws: ``ObjectStorageError/Code/unreadableSource`` if the URL is not that of a readable regular file.
    public init(_ url: URL) throws(ObjectStorageError) {
        guard url.isFileURL else { throw ObjectStorageError(.unreadableSource, "The source is not a file URL.") }
        self = try OpenSource(path: url.path).file
    }

    init(path: String, _ information: stat) {
        self.path = path
        (device, inode) = (UInt64(information.st_dev), UInt64(information.st_ino))
        size = Int64(information.st_size)
        modified = Int64(information.st_mtim.tv_sec) * 1_000_000_000 + Int64(information.st_mtim.tv_nsec)
    }

    /// Opens the file for reading.
    ///
    /// - Throws: ``ObjectStorageError/Code/sourceChanged`` if the file has changed.
    func open() throws(ObjectStorageError) -> OpenSource {
        let source = try OpenSource(path: path)
        guard source.file == self else { throw changed }
        return source
    }

    /// Throws an error if the file has changed.
    func check() throws(ObjectStorageError) { _ = try open() }

    var changed: ObjectStorageError {
        ObjectStorageError(.sourceChanged, "The file has changed since the upload began: \(path)")
    }
}

/// A regular file, open for reading.
final class OpenSource {
    let file: SourceFile
    private let descriptor: Int32

    init(path: String) throws(ObjectStorageError) {
        // Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw ObjectStorageError(.unreadableSource, "\(path): \(SystemError().text)")
        }
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            _ = close(descriptor)
            throw ObjectStorageError(.unreadableSource, "\(path) is not a regular file.")
        }
        file = SourceFile(path: path, information)
    }

    deinit { _ = close(descriptor) }

    /// Whether the file is unchanged since it was opened.
    var isUnchanged: Bool {
        var information = stat()
        return fstat(descriptor, &information) == 0 && SourceFile(path: file.path, information) == file
    }

    /// Reads at a position. Returns the number of bytes; 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer, at position: Int64) throws(ObjectStorageError) -> Int {
        while true {
            let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(position))
            if count >= 0 { return count }
            guard errno == EINTR else {
                throw ObjectStorageError(.unreadableSource, "\(file.path): \(SystemError().text)")
            }
        }
    }
}

/// A range of a file as the body of a request, read while it is sent.
final class FileRangeStream: InputStream, ReplayableBodyStream {
    private let file: SourceFile
    private let range: Range<Int64>
    private var source: OpenSource?
    private var position: Int64
    private var status = Stream.Status.notOpen
    private var failure: ObjectStorageError?

    init(_ file: SourceFile, _ range: Range<Int64>) {
        (self.file, self.range) = (file, range)
        position = range.lowerBound
        super.init(data: Data())
    }

    func replay() throws -> InputStream { FileRangeStream(file, range) }

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { failure }
    override var hasBytesAvailable: Bool { status == .open }
    override func property(forKey key: Stream.PropertyKey) -> AnyObject? { nil }
    override func setProperty(_ property: AnyObject?, forKey key: Stream.PropertyKey) -> Bool { false }
    override func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func getBuffer(
        _ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>
    ) -> Bool { false }

    override func open() {
        guard status == .notOpen else { return }
        do throws(ObjectStorageError) {
            source = try file.open()
            status = range.isEmpty ? .atEnd : .open
        } catch {
            (failure, status) = (error, .error)
        }
    }

    override func close() {
        source = nil
        status = .closed
    }

    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        if status == .atEnd { return 0 }
        guard status == .open, length > 0, let source else { return -1 }
        do throws(ObjectStorageError) {
            let wanted = Int(min(Int64(length), range.upperBound - position))
            let count = try source.read(into: UnsafeMutableRawBufferPointer(start: buffer, count: wanted), at: position)
            position += Int64(count)
            // A file that changes while it is sent must not become an object.
            guard count > 0, position < range.upperBound || source.isUnchanged else { throw file.changed }
            if position == range.upperBound { status = .atEnd }
            return count
        } catch {
            (failure, status, self.source) = (error, .error, nil)
            return -1
        }
    }
}
