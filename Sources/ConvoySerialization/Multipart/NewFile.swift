import Foundation

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A file that is written beside its place and moved there when it is whole.
///
/// Not finished, it leaves nothing behind.
final class NewFile {
    private let path: String
    private let temporaryPath: String
    private let descriptor: Int32
    private var isFinished = false

    /// - Throws: in `NSPOSIXErrorDomain`, as all its functions.
    init(path: String) throws {
        self.path = path
        let suffix = UInt64.random(in: .min ... .max)
        temporaryPath = path + "." + String(suffix, radix: 36) + ".part"
        // O_EXCL follows no symbolic link that somebody laid there.
        descriptor = open(temporaryPath, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor < 0 {
            let code = errno
            isFinished = true
            throw NSError.posix(code, path: path)
        }
    }

    deinit {
        if descriptor >= 0 { _ = close(descriptor) }
        if !isFinished { _ = unlink(temporaryPath) }
    }

    /// Writes all of it, however many calls that takes.
    func write(_ bytes: ArraySlice<UInt8>) throws {
        try bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return }
            var written = 0
            while written < buffer.count {
                let count = systemWrite(descriptor, base + written, buffer.count - written)
                if count < 0 {
                    if errno == EINTR { continue }
                    throw NSError.posix(errno, path: path)
                }
                written += count
            }
        }
    }

    /// Moves the file to its place.
    func finish() throws {
        guard rename(temporaryPath, path) == 0 else { throw NSError.posix(errno, path: path) }
        isFinished = true
    }
}

private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
    write(descriptor, bytes, count)
}
