import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Takes the body of a response for the task that reads it. It starts over only as long as that has got nothing.
final class ResponsePipeStream: OutputStream, PacedOutputStream, RewindableOutputStream {
    private let pipe: ResponsePipe

    init(pipe: ResponsePipe) {
        self.pipe = pipe
        super.init(toMemory: ())
    }

    /// Foundation demands it of every output stream. What is written to this one is read by nobody.
    required init(toMemory: ()) {
        pipe = ResponsePipe()
        super.init(toMemory: ())
    }

    var isOnLocalDisk: Bool { true }
    override var streamStatus: Stream.Status { .open }
    override var streamError: (any Error)? { nil }
    override var hasSpaceAvailable: Bool { true }
    override func open() {}
    override func close() {}

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        pipe.append(UnsafeRawBufferPointer(start: buffer, count: length))
        return length
    }

    func accept(_ response: ResponseHead) { pipe.accept(response) }

    func waitsForRoom(then: @escaping @Sendable () -> Void) -> Bool { pipe.waitsForRoom(then: then) }

    func rewind() throws {
        guard !pipe.takeBack() else { return }
        let cause = ResponseBytesError.cannotStartOver
        throw URLError(.resourceUnavailable, url: nil, "\(cause)", underlying: cause)
    }
}
