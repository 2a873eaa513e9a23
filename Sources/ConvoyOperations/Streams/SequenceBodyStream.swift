import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation

/// The body of a request that comes from an asynchronous sequence. The transport asks for its pieces; whoever reads it as a
/// stream blocks a thread meanwhile.
class SequenceBodyStream: InputStream, SuppliedBodyStream {
    private let pump: SequencePump
    private var status = Stream.Status.notOpen
    private var failure: (any Error)?
    /// What was read ahead of what somebody had room for.
    private var rest = Data()

    init(_ pump: SequencePump) {
        self.pump = pump
        super.init(data: Data())
    }

    deinit { pump.stop() }

    // MARK: SuppliedBodyStream

    func supply(_ then: @escaping @Sendable (Result<Data?, any Error>) -> Void) { pump.next(then) }

    func stopSupplying() { pump.stop() }

    // MARK: Stream

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { failure }
    override var hasBytesAvailable: Bool { status == .open }

    override func open() {
        if status == .notOpen { status = .open }
    }

    override func close() {
        status = .closed
        pump.stop()
    }

    /// Reads up to `length` bytes. Returns 0 at the end, and -1 on an error.
    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        if status == .atEnd { return 0 }
        guard status == .open, length > 0 else { return status == .open ? 0 : -1 }
        while rest.isEmpty {
            switch nextPiece() {
            case .success(let piece?): rest = piece
            case .success(nil):
                status = .atEnd
                return 0
            case .failure(let error):
                (failure, status) = (error, .error)
                return -1
            }
        }
        let count = min(length, rest.count)
        rest.copyBytes(to: buffer, count: count)
        rest = Data(rest.dropFirst(count))
        return count
    }

    /// Waits for the next piece.
    private func nextPiece() -> Result<Data?, any Error> {
        let answer = Locked(Result<Data?, any Error>.success(nil))
        let isThere = DispatchSemaphore(value: 0)
        pump.next { piece in
            answer.withLock { $0 = piece }
            isThere.signal()
        }
        isThere.wait()
        return answer.withLock { $0 }
    }

    /// Not supported: the stream has no buffer of its own.
    override func getBuffer(
        _ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>
    ) -> Bool { false }

    override func property(forKey key: Stream.PropertyKey) -> AnyObject? { nil }
    override func setProperty(_ property: AnyObject?, forKey key: Stream.PropertyKey) -> Bool { false }
    override func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
}

/// One that can be had again, as the sequence can be made anew.
final class ReplayableSequenceBodyStream: SequenceBodyStream, ReplayableBodyStream {
    private let make: @Sendable () -> SequencePump

    init(_ make: @escaping @Sendable () -> SequencePump) {
        self.make = make
        super.init(make())
    }

    func replay() throws -> InputStream { ReplayableSequenceBodyStream(make) }
}
