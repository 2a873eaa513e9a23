import ConvoySerialization
import Foundation

/// A range of a source as the body of a request, read while it is sent.
package final class SourceRangeStream: InputStream, ReplayableBodyStream {
    private let opening: @Sendable () throws -> any SeekableSource
    private let range: Range<Int64>
    private var source: (any SeekableSource)?
    private var position: Int64
    private var status = Stream.Status.notOpen
    private var failure: (any Error)?

    /// Creates a stream.
    ///
    /// - Parameter opening: Opens the source, when the stream is opened.
    package init(_ range: Range<Int64>, opening: @escaping @Sendable () throws -> any SeekableSource) {
        self.opening = opening
        self.range = range
        position = range.lowerBound
        super.init(data: Data())
    }

    convenience init(_ source: any SeekableSource, _ range: Range<Int64>) { self.init(range) { source } }

    package func replay() throws -> InputStream { SourceRangeStream(range, opening: opening) }

    package override var streamStatus: Stream.Status { status }
    package override var streamError: (any Error)? { failure }
    package override var hasBytesAvailable: Bool { status == .open }
    package override func property(forKey key: Stream.PropertyKey) -> AnyObject? { nil }
    package override func setProperty(_ property: AnyObject?, forKey key: Stream.PropertyKey) -> Bool { false }
    package override func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    package override func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {}
    package override func getBuffer(
        _ buffer: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>, length: UnsafeMutablePointer<Int>
    ) -> Bool { false }

    package override func open() {
        guard status == .notOpen else { return }
        do {
            source = try opening()
            status = range.isEmpty ? .atEnd : .open
        } catch {
            failure = error
            status = .error
        }
    }

    package override func close() {
        source = nil
        status = .closed
    }

    package override func read(_ buffer: UnsafeMutablePointer<UInt8>, maxLength length: Int) -> Int {
        if status == .atEnd { return 0 }
        guard status == .open, length > 0, let source else { return -1 }
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
            failure = error
            status = .error
            self.source = nil
            return -1
        }
    }
}
