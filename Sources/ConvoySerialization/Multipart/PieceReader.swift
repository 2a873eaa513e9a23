import ConvoySupport
import Foundation

/// Reads one piece of a form's body, and checks its length.
class PieceReader {
    /// Returns the number of bytes read; 0 at the end of the piece, once its length has been checked.
    func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int { 0 }

    static func reader(of piece: MultipartPart.Body) throws -> PieceReader {
        switch piece {
        case .data(let data): DataReader(data)
        case .file(let source): try FileReader(source)
        case .stream(let source): try StreamReader(source)
        }
    }
}

private final class DataReader: PieceReader {
    private let data: Data
    private var offset: Int

    init(_ data: Data) {
        self.data = data
        offset = data.startIndex
    }

    override func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let count = min(count, data.endIndex - offset)
        if count > 0 { data.copyBytes(to: buffer, from: offset..<(offset + count)) }
        offset += count
        return count
    }
}

private final class FileReader: PieceReader {
    private let source: FileSource
    private let file: OpenFile
    private var remaining: Int64

    init(_ source: FileSource) throws {
        self.source = source
        file = try source.open()
        remaining = source.length
    }

    override func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let wanted = Int(min(Int64(count), remaining))
        if wanted > 0 {
            let count = try file.read(into: buffer, count: wanted)
            guard count > 0 else { throw source.changed }
            remaining -= Int64(count)
            return count
        }
        // Otherwise a file that has grown meanwhile would be sent truncated.
        guard file.length == source.length else { throw source.changed }
        return 0
    }
}

private final class StreamReader: PieceReader {
    private let stream: InputStream
    private var remaining: Int64

    init(_ source: StreamSource) throws {
        stream = try source.take()
        remaining = source.length
        if stream.streamStatus == .notOpen { stream.open() }
    }

    deinit { stream.close() }

    override func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let wanted = Int(min(Int64(count), remaining))
        guard wanted > 0 else { return 0 }
        let count = stream.read(buffer, maxLength: wanted)
        guard count <= wanted else {
            throw StreamSource.exhausted("A stream claims to have read more than it was asked for.")
        }
        if count < 0 {
            throw StreamSource.exhausted(
                "A part of the form comes from a stream, which failed.", underlying: stream.safeError)
        }
        guard count > 0 else {
            throw StreamSource.exhausted("A part of the form comes from a stream, which ended before its length.")
        }
        remaining -= Int64(count)
        return count
    }
}
