import Convoy
import ConvoySupport
import Foundation

/// Receives the body of a response: counts it, hashes it, and writes it to a partial file if there is one.
///
/// The engine writes to it on a worker thread. The file is created with the first byte, so that an error response
/// leaves no file, and gets its final name before the operation finishes, so that dependents find it there.
final class BodyStream: OutputStream, CommittingOutputStream, BodyCounting {
    /// Used only under the lock.
    private struct Receipt: @unchecked Sendable {
        var status = Stream.Status.notOpen
        var file: FileWriter?
        var digest: MessageDigest?
        var count: Int64 = 0
        var failure: ToolError?
        var isCommitted = false
    }

    private let receipt: Locked<Receipt>
    private let hashes: Bool
    let path: String?

    /// - Parameter path: where the body goes; nil to drop it.
    init(path: String?, replaces: Bool, hashes: Bool) {
        (self.path, self.hashes) = (path, hashes)
        receipt = Locked(
            Receipt(
                file: path.map {
                    FileWriter(path: $0, partialPath: FileNames.partial(of: $0), replaces: replaces)
                },
                digest: hashes ? MessageDigest() : nil))
        super.init(toMemory: ())
    }

    required init(toMemory: ()) {
        (path, hashes) = (nil, false)
        receipt = Locked(Receipt())
        super.init(toMemory: ())
    }

    // MARK: For the engine

    override var streamStatus: Stream.Status { receipt.withLock { $0.status } }
    override var streamError: (any Error)? { receipt.withLock { $0.failure } }
    override var hasSpaceAvailable: Bool { streamStatus == .open }

    override func open() {
        receipt.withLock { receipt in
            guard receipt.status == .notOpen else { return }
            receipt.status = .open
        }
    }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        let bytes = UnsafeRawBufferPointer(start: buffer, count: length)
        return receipt.withLock { receipt in
            guard receipt.status == .open else { return -1 }
            do throws(FileWritingError) {
                try receipt.file?.open()
                try receipt.file?.write(bytes)
            } catch {
                receipt.failure = FileProblem.error(error)
                receipt.status = .error
                return -1
            }
            receipt.digest?.update(bytes)
            receipt.count += Int64(length)
            return length
        }
    }

    func rewind() throws {
        try receipt.withLock { receipt in
            do throws(FileWritingError) {
                if receipt.file?.isOpen == true { try receipt.file?.rewind() }
            } catch {
                let failure = FileProblem.error(error)
                (receipt.status, receipt.failure) = (.error, failure)
                throw failure
            }
            if hashes { receipt.digest = MessageDigest() }
            receipt.count = 0
        }
    }

    /// Gives the file of the complete body its final name.
    func commit() throws {
        try receipt.withLock { receipt in
            guard receipt.status == .open else { throw ToolError.failure(Outcome.cancelled) }
            do throws(FileWritingError) {
                try receipt.file?.commit()
                (receipt.status, receipt.isCommitted) = (.closed, true)
            } catch {
                let failure = FileProblem.error(error)
                (receipt.status, receipt.failure) = (.error, failure)
                throw failure
            }
        }
    }

    /// Closes the stream. Without an earlier `commit()`, the partial file is removed. Later writes fail.
    override func close() {
        receipt.withLock { receipt in
            receipt.file?.discard()
            if receipt.status != .error { receipt.status = .closed }
        }
    }

    // MARK: For the transfer

    var count: Int64 { receipt.withLock { $0.count } }

    /// Whether the file has its final name.
    var isCommitted: Bool { receipt.withLock { $0.isCommitted } }

    /// Why writing failed, with a better message than the engine's.
    var failure: ToolError? { receipt.withLock { $0.failure } }

    /// The SHA-256 of all bytes, in hexadecimal digits.
    var sha256: String? { receipt.withLock { $0.digest?.value()?.hexadecimalString } }
}
