import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Writes the bytes of a part to their place. The file is opened and closed by the download.
final class PartStream: OutputStream, DirectOutputStream, FileStream {
    private let download: Download?
    private let id: Int
    private(set) var failure: POSIXError?
    private var isClosed = false

    init(download: Download, id: Int) {
        (self.download, self.id) = (download, id)
        super.init(toMemory: ())
    }

    /// Foundation demands it of every output stream. Writing to this one fails.
    required init(toMemory: ()) {
        (download, id) = (nil, 0)
        super.init(toMemory: ())
    }

    var fileURL: URL { download?.finalURL ?? URL(fileURLWithPath: "/") }
    var isOnLocalDisk: Bool { download?.writesAtOnce ?? false }
    override var streamStatus: Stream.Status { failure != nil ? .error : isClosed ? .closed : .open }
    override var streamError: (any Error)? { failure }
    override var hasSpaceAvailable: Bool { failure == nil && !isClosed }
    override func open() {}
    override func close() { isClosed = true }

    override func write(_ buffer: UnsafePointer<UInt8>, maxLength length: Int) -> Int {
        guard let download, failure == nil, !isClosed else { return -1 }
        do throws(FileWritingError) {
            try download.write(UnsafeRawBufferPointer(start: buffer, count: length), for: id)
            return length
        } catch {
            failure = error.posixError
            return -1
        }
    }
}
