import Foundation

/// A file that is written beside its place and moved there when it is whole.
///
/// Not finished, it leaves nothing behind.
package final class NewFile {
    private let path: String
    private let temporaryPath: String
    private let writer: FileWriter
    private var isFinished = false

    package init(path: String) throws(SystemError) {
        self.path = path
        let suffix = UInt64.random(in: .min ... .max)
        temporaryPath = path + "." + String(suffix, radix: 36) + ".part"
        // O_EXCL does not follow a symbolic link that an attacker has made there.
        writer = try FileWriter(path: temporaryPath, flags: O_CREAT | O_EXCL, mode: 0o600)
    }

    deinit {
        try? writer.close()
        if !isFinished { _ = unlink(temporaryPath) }
    }

    /// Writes all of it.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(SystemError) { try writer.write(bytes) }

    /// Moves the file to its place.
    package func finish() throws(SystemError) {
        guard rename(temporaryPath, path) == 0 else { throw SystemError() }
        isFinished = true
    }
}
