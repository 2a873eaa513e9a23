import ConvoySupport
import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

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
            .unusableFile, "The file changed its size after it was added to the form.", subject: path,
            code: NSURLErrorRequestBodyStreamExhausted)
    }
}

/// A regular file that is open for reading, by its descriptor.
///
/// Foundation's file streams say nothing of a length, and their errors cannot be asked for safely on Linux.
final class OpenFile {
    private let descriptor: Int32

    /// The length now, in bytes.
    var length: Int64 {
        var information = stat()
        return fstat(descriptor, &information) == 0 ? Int64(information.st_size) : -1
    }

    /// - Throws: in `NSPOSIXErrorDomain`, with the path.
    init(path: String) throws {
        // Without O_NONBLOCK, opening a pipe would wait for its writer; for a regular file it means nothing.
        descriptor = Self.retrying { systemOpen(path) }
        guard descriptor >= 0 else { throw NSError.posix(errno, path: path) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else {
            let code = errno
            _ = close(descriptor)
            throw NSError.posix(code, path: path)
        }
        guard information.st_mode & S_IFMT == S_IFREG else {
            _ = close(descriptor)
            throw NSError.posix(information.st_mode & S_IFMT == S_IFDIR ? EISDIR : EINVAL, path: path)
        }
    }

    deinit { _ = close(descriptor) }

    /// The number of bytes read, 0 at the end of the file.
    func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let result = Self.retrying { systemRead(descriptor, buffer, count) }
        guard result >= 0 else { throw NSError.posix(errno, path: nil) }
        return result
    }

    private static func retrying<Result: SignedInteger>(_ call: () -> Result) -> Result {
        while true {
            let result = call()
            if result != -1 || errno != EINTR { return result }
        }
    }
}

private func systemOpen(_ path: String) -> Int32 { open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) }
private func systemRead(_ descriptor: Int32, _ buffer: UnsafeMutablePointer<UInt8>, _ count: Int) -> Int {
    read(descriptor, buffer, count)
}

extension NSError {
    /// The error of a system call, in words.
    static func posix(_ code: Int32, path: String?) -> NSError {
        var userInfo: [String: Any] = [NSLocalizedDescriptionKey: SystemError(code: code).text]
        userInfo[NSFilePathErrorKey] = path
        return NSError(domain: NSPOSIXErrorDomain, code: Int(code), userInfo: userInfo)
    }
}
