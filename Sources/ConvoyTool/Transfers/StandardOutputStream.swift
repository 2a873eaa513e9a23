import ConvoySupport
import Foundation
import Synchronization

/// Writes the body of a response to standard output. What is written cannot be taken back, so that a try that would have
/// to start over fails.
///
/// The engine writes on a worker thread: the reader of a pipe may be slow.
final class StandardOutputStream: OutputStream, BodyCounting {
    private struct Receipt {
        var status = Stream.Status.notOpen
        var count: Int64 = 0
        var failure: ToolError?
    }

    private let receipt = Mutex(Receipt())

    init() { super.init(toMemory: ()) }

    required init(toMemory: ()) { super.init(toMemory: ()) }

    override var streamStatus: Stream.Status { receipt.withLock { $0.status } }
    override var streamError: (any Error)? { receipt.withLock { $0.failure } }
    override var hasSpaceAvailable: Bool { streamStatus == .open }

    override func open() { receipt.withLock { if $0.status == .notOpen { $0.status = .open } } }

    override func close() { receipt.withLock { if $0.status != .error { $0.status = .closed } } }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        guard hasSpaceAvailable else { return -1 }
        do throws(SystemError) {
            // Not under the lock: it may wait for a reader.
            try StandardStreams.write(UnsafeRawBufferPointer(start: buffer, count: length), to: STDOUT_FILENO)
        } catch {
            receipt.withLock { receipt in
                receipt.failure = .disk("cannot write standard output: \(error.text)")
                receipt.status = .error
            }
            return -1
        }
        receipt.withLock { $0.count += Int64(length) }
        return length
    }

    var count: Int64 { receipt.withLock { $0.count } }
    var path: String? { nil }
    var sha256: String? { nil }
    var isCommitted: Bool { false }
    var failure: ToolError? { receipt.withLock { $0.failure } }
}
