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
    /// - Throws: as the other one does.
    static func contents(of descriptor: Int32, called what: String, limit: Int) throws(ToolError) -> Data {
        var data = Data()
        var block = [UInt8](repeating: 0, count: 1 << 18)
        while true {
            let count = read(descriptor, &block, block.count)
            if count == 0 { return data }
            guard count > 0 else {
                let error = SystemError()
                if error.code == EINTR { continue }
                throw .usage("cannot read \(what): \(error.text)")
            }
            data.append(contentsOf: block[..<count])
            guard data.count <= limit else { throw .usage("\(what): it has more than \(limit) bytes") }
        }
    }
}
