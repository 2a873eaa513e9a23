import ConvoySerialization
import Foundation

/// A range of a source as the body of a request, read while it is sent.
final class SourceRangeStream: InputStream, ReplayableBodyStream {
    private let source: any SeekableSource
    private let range: Range<Int64>
    private var position: Int64
    private var status = Stream.Status.notOpen
    private var failure: UploadError?

    init(_ source: any SeekableSource, _ range: Range<Int64>) {
        (self.source, self.range) = (source, range)
        position = range.lowerBound
        super.init(data: Data())
    }

    func replay() throws -> InputStream { SourceRangeStream(source, range) }

    override var streamStatus: Stream.Status { status }
    override var streamError: (any Error)? { failure }
    override var hasBytesAvailable: Bool { status == .open }
    override func property(forKey key: Stream.PropertyKey) -> AnyObject? { nil }
    override func setProperty(_ property: AnyObject?, forKey key: Stream.PropertyKey) -> Bool { false }
    override func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    override func getBuffer(
        _ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>
    ) -> Bool { false }

    override func open() {
        guard status == .notOpen else { return }
        status = range.isEmpty ? .atEnd : .open
    }

    override func close() { status = .closed }

    override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        if status == .atEnd { return 0 }
        guard status == .open, length > 0 else { return -1 }
        do throws(UploadError) {
            let wanted = Int(min(Int64(length), range.upperBound - position))
            let count = try source.read(into: UnsafeMutableRawBufferPointer(start: buffer, count: wanted), at: position)
            position += Int64(count)
            guard count > 0 else { throw UploadError(.sourceChanged) }
            if position == range.upperBound {
                // Check before the last byte, because a source that has changed must not become a complete upload.
                try source.check()
                status = .atEnd
            }
            return count
        } catch {
            (failure, status) = (error, .error)
            return -1
        }
    }
}
