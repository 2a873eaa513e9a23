import ConvoySupport
import Foundation

/// A regular file that is open for reading.
///
/// Foundation's file streams do not tell the length, and reading their errors is unsafe on Linux.
final class OpenFile {
    private let descriptor: Int32

    /// The length now, in bytes.
    var length: Int64 {
        var information = stat()
        return fstat(descriptor, &information) == 0 ? Int64(information.st_size) : -1
    }

    /// - Throws: an error in `NSPOSIXErrorDomain`, with the path.
    init(path: String) throws {
        // Without O_NONBLOCK, opening a pipe would wait for its writer; for regular files it has no effect.
        descriptor = Self.retrying { systemOpen(path) }
        guard descriptor >= 0 else { throw SystemError().error(path: path) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else {
            let failure = SystemError()
            _ = close(descriptor)
            throw failure.error(path: path)
        }
        guard information.st_mode & S_IFMT == S_IFREG else {
            _ = close(descriptor)
            throw SystemError(code: information.st_mode & S_IFMT == S_IFDIR ? EISDIR : EINVAL).error(path: path)
        }
    }

    deinit { _ = close(descriptor) }

    /// Returns the number of bytes read; 0 at the end of the file.
    func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) throws -> Int {
        let result = Self.retrying { systemRead(descriptor, buffer, count) }
        guard result >= 0 else { throw SystemError().error(path: nil) }
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
