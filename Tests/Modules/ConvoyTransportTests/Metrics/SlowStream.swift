import Foundation

/// A stream whose blocks of 100 bytes become available slowly.
final class SlowStream: InputStream {
    private var blocks: Int
    private let pause: TimeInterval
    private var isOpen = false

    init(blocks: Int, pause: TimeInterval) {
        (self.blocks, self.pause) = (blocks, pause)
        super.init(data: Data())
    }

    override func open() { isOpen = true }
    override func close() { isOpen = false }
    override var streamStatus: Stream.Status { isOpen ? (blocks == 0 ? .atEnd : .open) : .notOpen }
    override var hasBytesAvailable: Bool { blocks > 0 }

    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength: Int) -> Int {
        guard blocks > 0 else { return 0 }
        Thread.sleep(forTimeInterval: pause)
        blocks -= 1
        buffer.initialize(repeating: 0x61, count: min(100, maxLength))
        return min(100, maxLength)
    }
}
