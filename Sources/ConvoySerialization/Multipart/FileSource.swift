import Foundation

/// A file on disk that is sent as a part: a path and the length that was promised for it.
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
            // Opened and not only looked at, because that alone shows that it may be read.
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

    /// The error for a file that has another length than was promised in `Content-Length`.
    var changed: NSError {
        .request(
            .unusableFile, "The file changed its size after it was added to the request.", subject: path,
            code: NSURLErrorRequestBodyStreamExhausted)
    }
}
