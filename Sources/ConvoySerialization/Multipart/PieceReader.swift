import ConvoySupport
import Foundation
import Synchronization

/// A reader for a piece of a form's body, which verifies the length of the piece.
class PieceReader {
    /// Reads at most `count` bytes. Returns their number; 0 at the end of the piece, after its length has been
    /// verified.
    func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int { 0 }

    static func reader(of piece: MultipartPart.Body) throws -> PieceReader {
        switch piece {
        case .data(let data): DataReader(data)
        case .file(let source): try FileReader(source)
        case .stream(let source): try StreamReader(source)
        }
    }
}

private final class DataReader: PieceReader {
    private let data: Data
    private var offset: Int

    init(_ data: Data) {
        self.data = data
        offset = data.startIndex
    }

    override func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let count = min(count, data.endIndex - offset)
        if count > 0 { data.copyBytes(to: buffer, from: offset..<(offset + count)) }
        offset += count
        return count
    }
}

private final class FileReader: PieceReader {
    private let source: FileSource
    private let file: OpenFile
    private var remaining: Int64

    init(_ source: FileSource) throws {
        self.source = source
        file = try source.open()
        remaining = source.length
    }

    override func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let wanted = Int(min(Int64(count), remaining))
        if wanted > 0 {
            let count = try file.read(into: buffer, count: wanted)
            guard count > 0 else { throw source.changed }
            remaining -= Int64(count)
            return count
        }
        // Without this check, a file that has grown in the meantime would be sent truncated.
        guard file.length == source.length else { throw source.changed }
        return 0
    }
}

private final class StreamReader: PieceReader {
    private let stream: InputStream
    private var remaining: Int64

    init(_ source: StreamSource) throws {
        stream = try source.take()
        remaining = source.length
        if stream.streamStatus == .notOpen { stream.open() }
    }

    deinit { stream.close() }

    override func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let wanted = Int(min(Int64(count), remaining))
        guard wanted > 0 else { return 0 }
        let count = stream.read(buffer, maxLength: wanted)
        guard count <= wanted else {
            throw StreamSource.exhausted("A stream returned more bytes than requested.")
        }
        if count < 0 {
            throw StreamSource.exhausted(
                "The stream for a part of the form failed.", underlying: stream.safeError)
        }
        guard count > 0 else {
            throw StreamSource.exhausted("The stream for a part of the form ended before its specified length.")
        }
        remaining -= Int64(count)
        return count
    }
}

/// A file on disk that is sent as a part: its path, and its length at the time it was added.
struct FileSource: Sendable {
    let path: String
    let length: Int64

    init(url: URL) throws {
        guard url.isFileURL else {
            throw NSError.request(
                .unusableFile, "Expected URL to be a file URL", subject: url.absoluteString, code: NSURLErrorBadURL)
        }
        path = url.path
        do {
            // Open the file to verify that it can be read; `stat` would not show this.
            let file = try OpenFile(path: path)
            length = file.length
        } catch {
            throw NSError.request(
                .unusableFile, "File URL not reachable.", subject: path, code: NSURLErrorBadURL, underlying: error)
        }
    }

    /// Opens the file. Blocks while no descriptor is available.
    func open() throws -> OpenFile {
        let file = try OpenFile(path: path, waits: true)
        guard file.length == length else { throw changed }
        return file
    }

    /// The error for a file whose length no longer matches `Content-Length`.
    var changed: NSError {
        .request(
            .unusableFile, "The size of the file changed after it was added to the request.", subject: path,
            code: NSURLErrorRequestBodyStreamExhausted)
    }
}

/// A regular file that is open for reading.
///
/// Foundation's file streams do not report the length, and reading their errors is unsafe on Linux.
final class OpenFile {
    private let descriptor: Int32

    /// The current length, in bytes.
    var length: Int64 {
        var information = stat()
        return fstat(descriptor, &information) == 0 ? Int64(information.st_size) : -1
    }

    /// Opens a file.
    ///
    /// - Parameter waits: Whether to wait if no descriptor is available.
    /// - Throws: An error in `NSPOSIXErrorDomain`, with the path.
    init(path: String, waits: Bool = false) throws {
        // Without O_NONBLOCK, opening a pipe would wait for its writer. The flag has no effect on regular files.
        let open = { Self.retrying { systemOpen(path) } }
        descriptor = waits ? Self.awaitingDescriptor(open) : open()
        guard descriptor >= 0 else { throw SystemError().error(path: path) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else {
            let failure = SystemError()
            _ = close(descriptor)
            throw failure.error(path: path)
        }
        guard information.st_mode & S_IFMT == S_IFREG else {
            _ = close(descriptor)
            throw SystemError(code: information.st_mode & S_IFMT == S_IFDIR ? EISDIR : EINVAL).error(path: path)
        }
    }

    deinit { _ = close(descriptor) }

    /// Retries a call that fails because no descriptor is available, for at most five seconds. Other code in the
    /// process may release descriptors in the meantime. The calling thread may block anyway.
    private static func awaitingDescriptor(_ call: () -> Int32) -> Int32 {
        for _ in 0..<250 {
            let result = call()
            guard result < 0, SystemError().lacksDescriptor else { return result }
            usleep(20_000)
        }
        return call()
    }

    /// Reads at most `count` bytes. Returns their number; 0 at the end of the file.
    func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let result = Self.retrying { systemRead(descriptor, buffer, count) }
        guard result >= 0 else { throw SystemError().error(path: nil) }
        return result
    }

    private static func retrying<Result: SignedInteger>(_ call: () -> Result) -> Result {
        while true {
            let result = call()
            if result != -1 || errno != EINTR { return result }
        }
    }
}

private func systemOpen(_ path: String) -> Int32 { open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }
private func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutablePointer<UInt8>, _ count: Int) -> Int {
    read(descriptor, buffer, count)
}

/// A stream of which `length` bytes are sent as a part.
final class StreamSource {
    let length: Int64
    private let stream: InputStream?
    private let make: (@Sendable () throws -> InputStream)?
    private let isTaken = Atomic(false)

    init(_ stream: InputStream, length: Int64) {
        self.stream = stream
        self.length = length
        make = nil
    }

    init(length: Int64, making make: @escaping @Sendable () throws -> InputStream) {
        stream = nil
        self.length = length
        self.make = make
    }

    /// Returns an unopened stream to read from the start. A plain stream can be read only once, so it is returned only
    /// once.
    func take() throws -> InputStream {
        if let make { return try make() }
        guard let stream, !isTaken.exchange(true, ordering: .acquiringAndReleasing) else {
            if let stream = stream as? any ReplayableBodyStream { return try stream.replay() }
            throw StreamSource.exhausted("The stream for a part of the form has already been read.")
        }
        return stream
    }

    /// Throws the error that ``take()`` would throw, if any.
    func checkAvailable() throws {
        guard make == nil, !(stream is any ReplayableBodyStream), isTaken.load(ordering: .acquiring) else { return }
        throw StreamSource.exhausted("The stream for a part of the form has already been read.")
    }

    static func exhausted(_ reason: String, underlying: (any Error)? = nil) -> NSError {
        .request(.invalidPart, reason, code: NSURLErrorRequestBodyStreamExhausted, underlying: underlying)
    }
}

extension Stream {
    /// The stream's error, if any. On Linux, reading `streamError` of a Foundation stream that has not failed crashes.
    var safeError: (any Error)? { streamStatus == .error ? streamError : nil }
}
