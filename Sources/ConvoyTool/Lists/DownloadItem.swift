import Convoy
import Foundation

/// A file to download, as the command line, a list or a Metalink names it.
struct DownloadItem {
    /// Where it is, with user and password; the first is asked first.
    var urls: [URL]
    /// Its path below the directory; nil if the URL, or the server, tells its name.
    var name: String?
    /// nil for that of the command line.
    var directory: String?
    var checksum: Checksum?
    /// Header fields for this file only: `Name: value`.
    var headers: [String] = []
    var segments: Int?
    /// What a Metalink says of it.
    var metalink: Metalink.File?

    init(_ url: URL) { urls = [url] }

    init(urls: [URL]) { self.urls = urls }
}
