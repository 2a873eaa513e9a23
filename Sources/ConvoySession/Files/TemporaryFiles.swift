import ConvoySupport
import Foundation
import Glibc

/// The directory in which files are while they are downloaded, and until they are moved.
///
/// Nobody else may write to it: its files get names that cannot be guessed, but resume data tells them.
struct TemporaryFiles: Sendable {
    let directory: URL

    init(_ directory: URL) { self.directory = directory }

    /// A file with a new name.
    func newFile() -> URL {
        let digits = (0..<4).map { _ in
            let number = String(UInt32.random(in: 0 ... .max), radix: 16)
            return String(repeating: "0", count: 8 - number.utf8.count) + number
        }
        return file(digits.joined())
    }

    func file(_ name: String) -> URL { directory.appendingPathComponent(name, isDirectory: false) }

    /// Makes the directory, if it is not there, and checks that it is the user's own.
    ///
    /// - Throws: ``SessionError``.
    func prepare() throws {
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(directory.path)
        } catch {
            guard case .system(let cause) = error else { throw SessionError.unsafeDirectory(directory) }
            throw SessionError.unusableDirectory(directory, code: cause.code)
        }
    }

    /// The directory of a user for all sessions that have no other.
    static var standard: URL {
        URL(fileURLWithPath: NSTemporaryDirectory(), isDirectory: true)
            .appendingPathComponent("convoy-downloads-\(geteuid())", isDirectory: true)
    }
}
