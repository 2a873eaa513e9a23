import ConvoySupport
import Foundation

/// Reads files that the user names.
enum InputFile {
    /// The contents of a file; of standard input for `-`.
    ///
    /// - Parameter what: what the file is, for errors.
    /// - Throws: a usage error if it cannot be read, or is longer than the limit in bytes.
    static func contents(of path: String, called what: String, limit: Int) throws(ToolError) -> Data {
        do {
            // Foundation's `Data(contentsOf:)` does not read pipes, which a shell makes for `<(…)`.
            let handle = path == "-" ? .standardInput : try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { if path != "-" { try? handle.close() } }
            var data = Data()
            while let block = try handle.read(upToCount: 1 << 20), !block.isEmpty {
                data += block
                guard data.count <= limit else { throw ToolError.usage("\(what): it has more than \(limit) bytes") }
            }
            return data
        } catch let error as ToolError {
            throw error
        } catch {
            throw .usage("cannot read \(what): \(ErrorText.line(for: error))")
        }
    }
}
