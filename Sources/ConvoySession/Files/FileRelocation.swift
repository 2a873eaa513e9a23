import ConvoyDownloads
import ConvoySupport
import Foundation
import FoundationNetworking

/// Gives a file that was downloaded its place.
enum FileRelocation {
    /// Moves a file, also to another file system. A file that has the place stays, and is an error.
    ///
    /// - Throws: `DownloadError.fileExists` or `.unusableDestination`, or `URLError.cannotWriteToFile`. The file is where it
    ///   was then.
    static func move(_ file: URL, to place: URL, calls: FileCalls = FileCalls()) throws {
        let (old, new) = (file.path, place.path)
        guard place.isFileURL, !place.hasDirectoryPath, !new.isEmpty else { throw DownloadError.unusableDestination(place) }
        if old.utf8.elementsEqual(new.utf8) { return }
        do throws(FileWritingError) {
            do throws(FileWritingError) {
                try FileRenaming(calls: calls).rename(old, to: new, replaces: false)
            } catch {
                guard error.cause.code == EXDEV else { throw error }
                try copy(old, to: new, calls)
                _ = calls.unlink(old)
            }
        } catch {
            if error.reason == .exists { throw DownloadError.fileExists(place) }
            throw URLError(writing: place, url: nil, underlying: error.posixError)
        }
    }

    /// Copies into a partial file beside the place, which gets its name when it is whole.
    private static func copy(_ old: String, to new: String, _ calls: FileCalls) throws(FileWritingError) {
        let partial = PathText.join(
            PathText.directory(of: new), ".convoy-\(String(UInt64.random(in: 0 ... .max), radix: 36)).part")
        let source = calls.open(old, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0)
        guard source >= 0 else { throw FileWritingError(.cannotCreate, old, errno) }
        defer { _ = calls.close(source) }
        let writer = FileWriter(path: new, partialPath: partial, replaces: false, calls: calls)
        defer { writer.discard() }
        try writer.open()
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var offset: Int64 = 0
        while true {
            let count = buffer.withUnsafeMutableBytes { calls.readAt(source, $0, offset) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw FileWritingError(.cannotWrite, old, errno) }
            if count == 0 { break }
            try writer.write(Array(buffer[..<count]))
            offset += Int64(count)
        }
        try writer.commit()
    }
}
