import ConvoySupport
import Foundation

/// Reads files that the user names.
enum InputFile {
    /// The contents of a file; of standard input for `-`.
    ///
    /// - Parameter what: what the file is, for errors.
    /// - Throws: a usage error if it cannot be read, or is longer than the limit in bytes.
    static func contents(of path: String, called what: String, limit: Int) throws(ToolError) -> Data {
        // Foundation's `Data(contentsOf:)` does not read pipes, which a shell makes for `<(…)`.
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .usage("cannot read \(what): \(SystemError().text)") }
        defer { if descriptor != STDIN_FILENO { close(descriptor) } }
        return try contents(of: descriptor, called: what, limit: limit)
    }

    /// What is left to read from a descriptor, which stays open.
    ///
    /// - Throws: as ``contents(of:called:limit:)`` of a path.
    static func contents(of descriptor: Int32, called what: String, limit: Int) throws(ToolError) -> Data {
        do throws(FileContents.Failure) {
            return Data(try FileContents.read(descriptor, limit: limit))
        } catch {
            switch error {
            case .system(let cause): throw .usage("cannot read \(what): \(cause.text)")
            case .tooLarge(let limit): throw .usage("\(what): it has more than \(limit) bytes")
            }
        }
    }
}
