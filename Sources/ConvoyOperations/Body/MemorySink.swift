import ConvoyTransport
import Foundation
import FoundationNetworking

/// Keeps the body in memory.
final class MemorySink: BodySink {
    private var bytes = Data()

    var offset: Int64 { Int64(bytes.count) }
    var data: Data? { bytes }
    var isBusy: Bool { false }

    func open(then: (URLError?) -> Void) { then(nil) }

    func expect(_ count: Int64) {
        // A server's word is not worth more memory than this.
        if count > 4096, count <= 64 << 20 { bytes.reserveCapacity(Int(count)) }
    }

    func write(_ block: UnsafeRawBufferPointer, then: (URLError?) -> Void) {
        append(block)
        then(nil)
    }

    func append(_ block: UnsafeRawBufferPointer) {
        if bytes.isEmpty, block.count <= 4096, let base = block.baseAddress {
            bytes = Data(bytes: base, count: block.count)
        } else {
            bytes.append(contentsOf: block)
        }
    }

    func rewind(then: (URLError?) -> Void) {
        bytes = Data()
        then(nil)
    }

    func close(then: (URLError?) -> Void) { then(nil) }
}
