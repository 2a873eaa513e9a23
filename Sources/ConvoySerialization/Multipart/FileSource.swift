import Foundation

/// A file on disk that is sent as a part: its path, and its length when it was added.
struct FileSource: Sendable {
    let path: String
    let length: Int64

    init(url: URL) throws {
        guard url.isFileURL else {
            throw NSError.request(
                .unusableFile, "Expected URL to be a file URL", subject: url.absoluteString, code: NSURLErrorBadURL)
        }
        path = url.path
        do {
            // Opened, not just checked with `stat`, as only that shows that it can be read.
            let file = try OpenFile(path: path)
            length = file.length
        } catch {
            throw NSError.request(
                .unusableFile, "File URL not reachable.", subject: path, code: NSURLErrorBadURL, underlying: error)
        }
    }

    func open() throws -> OpenFile {
        let file = try OpenFile(path: path)
        guard file.length == length else { throw changed }
        return file
    }

    /// The error for a file whose length no longer fits `Content-Length`.
    var changed: NSError {
        .request(
            .unusableFile, "The file changed its size after it was added to the request.", subject: path,
            code: NSURLErrorRequestBodyStreamExhausted)
    }
}
