import ConvoySupport
import Foundation

/// The contents of a file that a manifest names.
enum NamedFile {
    private static let maximumLength = 64 << 20

    /// Reads a file.
    ///
    /// - Parameter allowsPipes: Whether the file may be a pipe or another special file, which is read until its end.
    /// - Throws: An error that names the path.
    static func contents(of path: String, allowsPipes: Bool = false) throws(EvaluationError) -> Data {
        guard !path.utf8.contains(0) else { throw failure(path, "the path contains a NUL character") }
        // Without O_NONBLOCK, opening a pipe waits for its writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | (allowsPipes ? 0 : O_NONBLOCK))
        guard descriptor >= 0 else { throw failure(path, SystemError().text) }
        defer { close(descriptor) }
        if !allowsPipes {
            var information = stat()
            guard fstat(descriptor, &information) == 0 else { throw failure(path, SystemError().text) }
            guard information.st_mode & S_IFMT == S_IFREG else { throw failure(path, "it is not a regular file") }
        }
        do {
            return Data(try FileContents.read(descriptor, limit: maximumLength))
        } catch {
            switch error {
            case .system(let cause): throw failure(path, cause.text)
            case .tooLarge(let limit): throw failure(path, "it is larger than \(limit) bytes")
            }
        }
    }

    static func failure(_ path: String, _ reason: String) -> EvaluationError {
        EvaluationError(message: "cannot read \(quoted(path, isCut: false)): \(reason)", isAboutFile: true)
    }
}
