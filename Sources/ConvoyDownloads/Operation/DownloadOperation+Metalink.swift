import Foundation
import FoundationNetworking

/// Downloads that a Metalink describes.
extension DownloadOperation {
    /// A download of a file of a Metalink (RFC 5854) into a directory, with its mirrors, checksums and length. The
    /// directories in the file's name are not made.
    ///
    /// - Throws: ``DownloadError/noSource`` if the Metalink has no URL of http or https for the file.
    public convenience init(_ file: Metalink.File, directory: URL) throws(DownloadError) {
        guard let first = file.mirrors.first else { throw .noSource }
        let place = file.pathComponents.reduce(directory) { $0.appendingPathComponent($1, isDirectory: false) }
        self.init(request: URLRequest(url: first.url), destination: place)
        apply(file)
        mirrors = file.mirrors.dropFirst().map(\.url)
    }

    /// Takes over what a Metalink says of the file: its other URLs, checksums and length. The request stays the first to
    /// be sent.
    public final func apply(_ file: Metalink.File) {
        mirrors = file.mirrors.map(\.url).filter { $0 != request.url }
        if !file.checksums.isEmpty { checksums = file.checksums }
        if let size = file.size { expectedLength = size }
        if let pieces = file.pieces {
            pieceChecksums = PieceChecksums(length: pieces.length, checksums: pieces.checksums)
        }
    }
}
