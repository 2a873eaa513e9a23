import ConvoySupport
import Foundation
import Synchronization

/// Writes the body of a response to standard output, a device or a pipe. What is written cannot be taken back, so that a
/// try that would have to start over fails.
///
/// The engine opens it and writes on a worker thread: the reader of a pipe may be slow, or not be there yet.
final class DescriptorStream: OutputStream, BodyCounting {
    private struct Receipt {
        var status = Stream.Status.notOpen
        var descriptor: Int32
        var count: Int64 = 0
        /// Whether a write is under way, which closes the descriptor at its end, if that is to be: another file may get its
        /// number.
        var isWriting = false
        /// When it gives up waiting for a reader.
        var end: MonotonicTime?
        var failure: ToolError?
    }

    private let receipt: Mutex<Receipt>
    /// nil for standard output.
    let path: String?

    /// How long it waits for a reader in all, in seconds; nil for as long as it takes.
    private let patience: TimeInterval?

    /// - Parameter path: of a device or a pipe; nil for standard output.
    init(path: String?, patience: TimeInterval? = nil) {
        (self.path, self.patience) = (path, patience)
        receipt = Mutex(Receipt(descriptor: path == nil ? STDOUT_FILENO : -1))
        super.init(toMemory: ())
    }

    required convenience init(toMemory: ()) { self.init(path: nil) }

    deinit { release() }

    override var streamStatus: Stream.Status { receipt.withLock { $0.status } }
    override var streamError: (any Error)? { receipt.withLock { $0.failure } }
    override var hasSpaceAvailable: Bool { streamStatus == .open }

    override func open() {
        guard streamStatus == .notOpen else { return }
        if let patience, patience > 0 { receipt.withLock { $0.end = MonotonicClock.now + UInt64(patience * 1e9) } }
        do throws(ToolError) {
            // Not under the lock: a pipe waits for its reader.
            let opened = try path.map { path throws(ToolError) in try open(path) } ?? STDOUT_FILENO
            receipt.withLock { ($0.descriptor, $0.status) = (opened, .open) }
        } catch {
            receipt.withLock { ($0.failure, $0.status) = (error, .error) }
        }
    }

    /// Opens a device or a pipe. For the reader of a pipe it waits until it is interrupted, which a plain call would not
    /// be.
    private func open(_ path: String) throws(ToolError) -> Int32 {
        while true {
            let opened = Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
            if opened >= 0 { return opened }
            let error = SystemError()
            guard error.code == ENXIO || error.code == EINTR, isPipe(path) else {
                throw .disk("cannot open \(shownPath): \(error.text)")
            }
            if let reason = reasonToStop { throw reason }
            usleep(20_000)
        }
    }

    /// Why nobody waits for a reader any more; nil as long as somebody does.
    private var reasonToStop: ToolError? {
        if Interruption.shared.status != nil || streamStatus == .closed {
            return ToolError(text: Outcome.cancelled, status: .failed(.cancelled))
        }
        guard let end = receipt.withLock({ $0.end }), MonotonicClock.now > end else { return nil }
        return ToolError(text: "nobody has read \(shownPath) in time (--max-time)", status: .failed(.timeout))
    }

    private func isPipe(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFIFO
    }

    override func close() {
        let isWriting = receipt.withLock { receipt in
            if receipt.status != .error || receipt.isWriting { receipt.status = .closed }
            return receipt.isWriting
        }
        if !isWriting { release() }
    }

    private func endWriting() {
        let isClosed = receipt.withLock { receipt in
            receipt.isWriting = false
            return receipt.status == .closed
        }
        if isClosed { release() }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        guard hasSpaceAvailable else { return -1 }
        let descriptor = receipt.withLock { receipt in
            receipt.isWriting = true
            return receipt.descriptor
        }
        defer { endWriting() }
        do throws(SystemError) {
            // Not under the lock: it may wait for a reader.
            try StandardStreams.write(UnsafeRawBufferPointer(start: buffer, count: length), to: descriptor) {
                reasonToStop == nil
            }
        } catch {
            let failure = reasonToStop ?? .disk("cannot write \(shownPath): \(error.text)")
            receipt.withLock { receipt in
                receipt.failure = receipt.failure ?? failure
                if receipt.status == .open { receipt.status = .error }
            }
            return -1
        }
        receipt.withLock { $0.count += Int64(length) }
        return length
    }

    private func release() {
        let descriptor = receipt.withLock { receipt in
            defer { receipt.descriptor = -1 }
            return receipt.descriptor
        }
        if descriptor > STDERR_FILENO { Glibc.close(descriptor) }
    }

    private var shownPath: String { path.map { Printable.line($0) } ?? "standard output" }

    var count: Int64 { receipt.withLock { $0.count } }
    var sha256: String? { nil }
    var isCommitted: Bool { false }
    var failure: ToolError? { receipt.withLock { $0.failure } }
}
