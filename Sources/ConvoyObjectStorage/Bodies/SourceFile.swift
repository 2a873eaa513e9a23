import ConvoySupport
import ConvoyUploads
import Foundation

/// A file to send, with an identity that detects changes.
public struct SourceFile: Sendable, Hashable, Codable {
    /// The file's path.
    public let path: String
    private let identity: SourceIdentity
    /// The time at which the identity was recorded, in nanoseconds since 1970.
    private let seen: Int64

    /// The size in bytes.
    public var size: Int64 { identity.size }

    /// Records the current state of the file at a URL. Opens the file, so that an unreadable one is detected here.
    ///
    /// - Throws: ``ObjectStorageError/Code/unreadableSource`` if the URL is not that of a readable regular file.
    public init(_ url: URL) throws(ObjectStorageError) {
        guard url.isFileURL else { throw ObjectStorageError(.unreadableSource, "The source is not a file URL.") }
        try self.init(path: url.path)
    }

    private init(path: String) throws(ObjectStorageError) {
        self.path = path
        identity = try Self.source(path).identity
        seen = SourceIdentity.now
    }

    private static func source(_ path: String) throws(ObjectStorageError) -> FileSource {
        do throws(UploadError) {
            return try FileSource(URL(fileURLWithPath: path, isDirectory: false))
        } catch {
            throw ObjectStorageError(error, path: path)
        }
    }

    /// Opens the file for reading.
    ///
    /// - Throws: ``ObjectStorageError/Code/sourceChanged`` if the file was changed or replaced.
    func open() throws(ObjectStorageError) -> FileSource {
        let source = try Self.source(path)
        guard identity.isSameFile(as: source.identity) else { throw changed }
        return source
    }

    /// Throws an error if the file was changed or replaced.
    func check() throws(ObjectStorageError) { _ = try open() }

    /// Reads a range block by block, and checks that the file has not changed. Blocks.
    func read(_ range: Range<Int64>, _ use: (UnsafeRawBufferPointer) -> Void) throws(ObjectStorageError) {
        let source = try open()
        do throws(UploadError) {
            try source.read(range) { bytes in
                use(bytes)
                return true
            }
            try source.check()
        } catch {
            throw ObjectStorageError(error, path: path)
        }
    }

    /// Returns the current state of the file, and whether the bytes sent earlier must be compared with those of the
    /// file. Blocks.
    ///
    /// - Throws: ``ObjectStorageError/Code/sourceChanged`` if the file has certainly changed.
    func renewed() throws(ObjectStorageError) -> (file: SourceFile, mustCompareBytes: Bool) {
        let now = try SourceFile(path: path)
        guard identity.mayEqual(now.identity) else { throw changed }
        return (now, identity.mustCompareBytes(with: now.identity, seen: seen))
    }

    var changed: ObjectStorageError {
        ObjectStorageError(.sourceChanged, "The file has changed since the upload began: \(path)")
    }
}

extension ObjectStorageError {
    /// Creates the error for a file that cannot be read.
    fileprivate init(_ error: UploadError, path: String) {
        switch error.reason {
        case .sourceChanged: self.init(.sourceChanged, "The file has changed since the upload began: \(path)")
        case .unreadableSource(let reason): self.init(.unreadableSource, reason)
        default: self.init(.unreadableSource, "\(path): \(error.sentence)")
        }
    }
}
