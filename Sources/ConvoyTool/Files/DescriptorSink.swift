import Convoy
import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A sink that writes the body of a response to standard output, a device or a pipe. Written bytes cannot be withdrawn,
/// so a retry that would have to start over fails.
///
/// The engine opens the sink and writes on a worker thread, because the reader of a pipe may be slow or not yet connected.
final class DescriptorSink: BodyCounting {
    private struct Receipt {
        /// The descriptor, or -1 while it is not open.
        var descriptor: Int32 = -1
        var count: Int64 = 0
        /// Whether a write is running. If the sink is closed in the meantime, the write closes the descriptor at its end;
        /// closing it earlier could let another file reuse its number.
        var isWriting = false
        var isClosed = false
        /// The deadline for waiting for a reader.
        var end: MonotonicTime?
        var failure: ToolError?
        /// The closure to call before the first byte.
        var start: BodyStart?
    }

    private let receipt = Locked(Receipt())
    /// The path, or nil for standard output.
    let path: String?

    /// The total time to wait for a reader, in seconds, or nil to wait indefinitely.
    private let patience: TimeInterval?

    /// Whether the descriptor stays open after the engine has ended the body, so that a body that the engine has kept in
    /// memory can follow.
    private let staysOpen: Bool

    /// - Parameter path: The path of a device or a pipe, or nil for standard output.
    init(path: String?, patience: TimeInterval? = nil, staysOpen: Bool = false) {
        self.path = path
        self.patience = patience
        self.staysOpen = staysOpen
    }

    deinit { release() }

    // MARK: For the engine

    var isOpen: Bool { false }

    func open() throws(URLError) {
        guard receipt.withLock({ $0.descriptor }) < 0 else { return }
        if let patience, patience > 0 { receipt.withLock { $0.end = MonotonicClock.now + UInt64(patience * 1e9) } }
        do throws(ToolError) {
            // Open the pipe outside the lock, because opening it waits for its reader.
            let opened = try path.map { path throws(ToolError) in try open(path) } ?? STDOUT_FILENO
            receipt.withLock { $0.descriptor = opened }
        } catch {
            throw fail(error)
        }
    }

    /// Opens a device or a pipe. Waits for the reader of a pipe until an interruption, which a blocking `open` would ignore.
    private func open(_ path: String) throws(ToolError) -> Int32 {
        while true {
            let opened = Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
            if opened >= 0 { return opened }
            let error = SystemError()
            guard error.lacksDescriptor || (error.code == ENXIO || error.code == EINTR) && isPipe(path) else {
                throw .disk("cannot open \(shownPath): \(error.text)")
            }
            if let reason = reasonToStop { throw reason }
            usleep(20_000)
        }
    }

    private func isPipe(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) == 0 && information.st_mode & S_IFMT == S_IFIFO
    }

    /// The reason to stop waiting for a reader, or nil.
    private var reasonToStop: ToolError? {
        let (isClosed, end) = receipt.withLock { ($0.isClosed, $0.end) }
        if Interruption.shared.status != nil || isClosed {
            return .cancelled
        }
        guard let end, MonotonicClock.now > end else { return nil }
        return ToolError(text: "\(shownPath) was not read in time (--max-time)", status: .failed(.timeout))
    }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        throw URLError(
            .cannotWriteToFile, url: nil,
            "The response must be fetched again from the start, but the output stream cannot be rewound.")
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        if let start = receipt.withLock({ $0.start.take() }) {
            let head: Data
            do throws(ToolError) {
                head = try start() ?? Data()
            } catch {
                throw fail(error)
            }
            try put(head)
        }
        try put(bytes)
        receipt.withLock { $0.count += Int64(bytes.count) }
    }

    private func put(_ data: Data) throws(URLError) {
        let result = data.withUnsafeBytes { bytes in Result { () throws(URLError) in try put(bytes) } }
        try result.get()
    }

    private func put(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        if bytes.isEmpty { return }
        let descriptor = receipt.withLock { receipt in
            receipt.isWriting = true
            return receipt.isClosed ? -1 : receipt.descriptor
        }
        defer { endWriting() }
        guard descriptor >= 0 else { throw fail(reasonToStop ?? .disk("cannot write to \(shownPath): it is not open")) }
        do throws(SystemError) {
            // Write outside the lock, because writing may wait for a reader.
            try StandardStreams.write(bytes, to: descriptor) { reasonToStop == nil }
        } catch {
            throw fail(reasonToStop ?? .disk("cannot write to \(shownPath): \(error.text)"))
        }
    }

    private func endWriting() {
        let isClosed = receipt.withLock { receipt in
            receipt.isWriting = false
            return receipt.isClosed
        }
        if isClosed { release() }
    }

    func close() { if !staysOpen { discard() } }

    /// Writes a body that the engine has kept in memory, and closes the descriptor.
    func finish(_ body: Data) throws(ToolError) {
        defer { discard() }
        do throws(URLError) {
            try put(body)
        } catch {
            throw failure ?? .disk("cannot write to \(shownPath)")
        }
    }

    func discard() {
        let isWriting = receipt.withLock { receipt in
            receipt.isClosed = true
            return receipt.isWriting
        }
        if !isWriting { release() }
    }

    private func release() {
        let descriptor = receipt.withLock { receipt in
            defer { receipt.descriptor = -1 }
            return receipt.descriptor
        }
        if descriptor > STDERR_FILENO { Glibc.close(descriptor) }
    }

    /// Records the first failure, and returns the engine's error for it.
    private func fail(_ failure: ToolError) -> URLError {
        receipt.withLock { $0.failure = $0.failure ?? failure }
        return URLError(.cannotWriteToFile, url: nil, failure.text, underlying: failure)
    }

    func onStart(_ start: @escaping BodyStart) { receipt.withLock { $0.start = start } }

    /// Prints a response whose body was not written: its head, if requested, and the body.
    func keep(_ body: Data) throws(ToolError) {
        let start = receipt.withLock { receipt in
            receipt.isClosed = false
            receipt.descriptor = path == nil ? STDOUT_FILENO : receipt.descriptor
            return receipt.start.take()
        }
        var bytes = try start?() ?? Data()
        bytes.append(body)
        guard path == nil else { return }
        do throws(URLError) {
            try put(bytes)
        } catch {
            throw failure ?? .disk("cannot write to \(shownPath)")
        }
    }

    private var shownPath: String { path.map { Printable.line($0) } ?? "standard output" }

    // MARK: For the transfer

    var count: Int64 { receipt.withLock { $0.count } }
    var sha256: String? { nil }
    var isCommitted: Bool { false }
    var failure: ToolError? { receipt.withLock { $0.failure } }
}
