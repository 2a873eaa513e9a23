import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Writes the bytes of a part to their place. The file is opened and closed by the download.
final class PartSink: BodySink {
    private let download: Download
    private let id: Int

    init(of download: Download, id: Int) { (self.download, self.id) = (download, id) }

    var isImmediate: Bool { download.writesAtOnce }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        guard count > 0 else { return }
        throw URLError(.cannotWriteToFile, url: nil, "A part of a download cannot start over.")
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        do throws(FileWritingError) {
            try download.write(bytes, for: id)
        } catch {
            let file = download.finalURL ?? URL(fileURLWithPath: "/")
            throw URLError(writing: file, url: nil, underlying: error.posixError)
        }
    }
}
