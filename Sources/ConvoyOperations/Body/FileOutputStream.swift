import ConvoySupport
import Foundation
import FoundationNetworking

/// An output stream to a file that can start over: like `OutputStream(url:append: false)`, with `rewind()`.
///
/// Opening the stream creates the file, or truncates an existing one. An operation opens it with the first response
/// whose body goes into the file.
public final class FileOutputStream: OutputStream, RewindableOutputStream {
    /// The file that is written.
    public let fileURL: URL
    let sink: FileSink

    /// Makes a stream without opening it.
    public init(fileURL: URL) {
        (self.fileURL, sink) = (fileURL, FileSink(inPlace: fileURL))
        super.init(toMemory: ())
    }

    /// Required by `OutputStream`. A file stream cannot write to memory, so opening this one fails.
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
    /// - Throws: `POSIXError`.
    public func rewind() throws {
        guard sink.isOpen, !sink.isClosed else { throw POSIXError(.EBADF) }
        do { try sink.rewind() } catch { throw failure ?? POSIXError(.EIO) }
    }
}
