import ConvoySupport
import ConvoyTestSupport
import Foundation
import Testing

@testable import ConvoyTransport

/// A body from a stream while the network accepts nothing.
@Suite struct StreamBodyTests {
    let thread = NetworkThread()

    /// Fills a buffer on the network thread, like the transfer.
    private func fill(_ body: StreamBody, _ count: Int) -> [UInt8]? {
        struct Box: @unchecked Sendable { let body: StreamBody }
        let box = Box(body: body)
        let filled = Locked<[UInt8]?>(nil)
        let done = DispatchSemaphore(value: 0)
        thread.perform {
            var bytes = [UInt8](repeating: 0, count: count)
            let supply = bytes.withUnsafeMutableBytes { box.body.fill($0) }
            if case .bytes(let filledCount) = supply { filled.withLock { $0 = Array(bytes.prefix(filledCount)) } }
            done.signal()
        }
        done.wait()
        return filled.withLock { $0 }
    }

    @Test func `a stream that provides single bytes is buffered in few pieces`() throws {
        let stream = BytewiseStream(count: 4_096)
        let body = StreamBody(stream: stream, length: nil, url: nil, thread: thread) {}
        #expect(fill(body, 16_384) == nil)
        try stream.isDone.waitOrThrow(timeout: 30, "the end of the stream")
        var received: [UInt8] = []
        var fills = 0
        while let bytes = fill(body, 16_384), !bytes.isEmpty {
            received += bytes
            fills += 1
        }
        #expect(received == (0..<4_096).map { UInt8(truncatingIfNeeded: $0) })
        #expect(fills <= 2, "\(fills)")
    }
}

/// A stream that provides one byte per call.
private final class BytewiseStream: InputStream {
    let isDone = DispatchSemaphore(value: 0)
    private let count: Int
    private var position = 0

    init(count: Int) {
        self.count = count
        super.init(data: Data())
    }

    override func open() {}
    override func close() { isDone.signal() }
    override var streamStatus: Stream.Status { .open }
    override var hasBytesAvailable: Bool { true }

    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        guard position < count, length > 0 else { return 0 }
        buffer.pointee = UInt8(truncatingIfNeeded: position)
        position += 1
        return 1
    }
}
