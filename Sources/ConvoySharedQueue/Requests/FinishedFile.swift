import Foundation

/// The identity of a downloaded file, which does not change when the file is renamed.
package struct FinishedFile: Sendable, Equatable, Codable {
    package var url: URL
    /// The inode number of the file, and its length in bytes.
    package var number: Int64
    package var length: Int64

    /// Whether the file is at its destination.
    package var isThere: Bool {
        var information = stat()
        guard stat(url.path, &information) == 0 else { return false }
        return Int64(bitPattern: UInt64(information.st_ino)) == number && Int64(information.st_size) == length
    }

    /// Identifies the file at a path; nil if its status cannot be read.
    ///
    /// - Parameter path: The current path of the file.
    package init?(_ path: String, as url: URL) {
        var information = stat()
        guard stat(path, &information) == 0 else { return nil }
        self.init(
            url: url, number: Int64(bitPattern: UInt64(information.st_ino)), length: Int64(information.st_size))
    }

    init(url: URL, number: Int64, length: Int64) {
        self.url = url
        self.number = number
        self.length = length
    }
}

extension FinishedFile {
    /// Decodes the mark of an earlier attempt; nil if it is invalid.
    init?(mark: String) {
        guard let file = try? JSONDecoder().decode(Self.self, from: Data(mark.utf8)), file.url.isFileURL else { return nil }
        self = file
    }

    /// The mark for the next attempt.
    var mark: String { (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "" }
}
