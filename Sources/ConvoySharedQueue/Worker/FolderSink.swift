import ConvoyOperations
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// A sink that writes the body of a response to a worker's folder. The file appears only when complete, and only if the
/// worker still holds the lease.
final class FolderSink: BodySink, @unchecked Sendable {
    let fileURL: URL
    /// The number of bytes in the file.
    private(set) var count: Int64 = 0
    private(set) var isOpen = false
    let isProvisional = true
    let opensFile = true
    private let file: FileWriter
    private let mayCommit: @Sendable () -> Bool

    init(_ fileURL: URL, mayCommit: @escaping @Sendable () -> Bool) {
        self.fileURL = fileURL
        self.mayCommit = mayCommit
        let partial = fileURL.deletingLastPathComponent().appendingPathComponent(".\(UUID().uuidString).convoy")
        file = FileWriter(path: fileURL.path, partialPath: partial.path, replaces: true)
    }

    func open() throws(URLError) {
        do {
            try FileManager.default.createDirectory(
                at: fileURL.deletingLastPathComponent(), withIntermediateDirectories: true)
        } catch {
            let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? POSIXError
            throw URLError(.cannotCreateFile, writing: fileURL, url: nil, underlying: cause ?? error)
        }
        isOpen = true
    }

    func begin(_ response: ResponseHead, discarding count: Int64) throws(URLError) {
        self.count = 0
        guard file.isOpen, count > 0 else { return }
        try attempt { () throws(FileWritingError) in try file.rewind() }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(URLError) {
        try attempt { () throws(FileWritingError) in
            try file.open()
            try file.write(bytes)
        }
        count += Int64(bytes.count)
    }

    func synchronize() throws(URLError) { try attempt { () throws(FileWritingError) in try file.synchronize() } }

    func commit() throws {
        guard mayCommit() else { throw SharedQueueError.closed }
        try attempt { () throws(FileWritingError) in try file.commit() }
    }

    func discard() { file.discard() }

    private func attempt(_ body: () throws(FileWritingError) -> Void) throws(URLError) {
        do throws(FileWritingError) {
            try body()
        } catch {
            throw URLError(.cannotWriteToFile, writing: fileURL, url: nil, underlying: error.posixError)
        }
    }
}
