import Convoy
import ConvoySupport
import Foundation

/// A file that a command writes in one step when it ends: a report, a page, an archive or a manifest.
///
/// An existing file is replaced atomically and keeps its permissions. Links are followed. Devices, pipes and standard output
/// are written to directly. Directories are never replaced.
struct OutputFile: Sendable {
    let path: String
    private let option: String
    /// Whether a new file is readable by its owner only.
    private let isPrivate: Bool

    var isStandardOutput: Bool { SpecialFile.isStandardOutput(path) }
    var isStream: Bool { isStandardOutput || SpecialFile.isStream(path) }

    /// Checks that the file can be written, before anything is sent.
    ///
    /// - Parameter option: The option that names the file, for errors.
    init(_ path: String, option: String, isPrivate: Bool = false) throws(ToolError) {
        self.path = path
        self.option = option
        self.isPrivate = isPrivate
        guard !path.isEmpty else { throw .usage("--\(option) needs a file") }
        guard !isStream else { return }
        let target = try target()
        var facts = stat()
        let exists = stat(target, &facts) == 0
        guard access(exists ? target : PathText.directory(of: target), W_OK) == 0,
            access(PathText.directory(of: target), W_OK | X_OK) == 0
        else { throw failure(SystemError().text) }
    }

    /// Returns the path for a row of `--data`: `journal-2.x` instead of `journal.x` for row 2.
    static func numbered(_ path: String, _ row: Int) -> String {
        let name = PathText.name(of: path)
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return "\(path)-\(row)" }
        return PathText.join(PathText.directory(of: path), "\(name[..<dot])-\(row)\(name[dot...])")
    }

    /// Returns the path with links resolved.
    private func target() throws(ToolError) -> String {
        var facts = stat()
        if stat(path, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR { throw failure(SystemError(code: EISDIR).text) }
        do throws(PrivateFile.Failure) {
            return try PrivateFile.target(of: path)
        } catch {
            throw failure(error.reason)
        }
    }

    /// Returns a sink that replaces the file when a body is complete.
    func makeSink() throws(ToolError) -> OutputFileSink {
        let target = try target()
        var facts = stat()
        // There is no other way to read the user's umask.
        let isNew = stat(target, &facts) != 0, mask = umask(0)
        umask(mask)
        let mode = isNew ? (isPrivate ? PrivateFile.mode : 0o666 & ~mask) : facts.st_mode & 0o777
        return OutputFileSink(target, mode: mode) { failure($0) }
    }

    func write(_ data: Data) throws(ToolError) {
        if isStream { return try stream(data) }
        let target = try target()
        var facts = stat()
        if stat(target, &facts) != 0 {
            // The system applies the user's umask to these permissions.
            let descriptor = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, isPrivate ? PrivateFile.mode : 0o666)
            guard descriptor >= 0 else { throw failure(SystemError().text) }
            fstat(descriptor, &facts)
            close(descriptor)
        }
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(target, with: Array(data))
        } catch {
            throw failure(error.reason)
        }
        guard chmod(target, facts.st_mode & 0o777) == 0 else { throw failure(SystemError().text) }
    }

    private func stream(_ data: Data) throws(ToolError) {
        let sink = DescriptorSink(path: isStandardOutput ? nil : path)
        defer { sink.discard() }
        do throws(URLError) {
            try sink.open()
            let result = data.withUnsafeBytes { bytes in Result { () throws(URLError) in try sink.write(bytes) } }
            try result.get()
        } catch {
            throw sink.failure ?? failure(ErrorText.line(for: error))
        }
    }

    private func failure(_ reason: String) -> ToolError {
        .disk("--\(option): cannot write \(Printable.line(path)): \(reason)")
    }
}
