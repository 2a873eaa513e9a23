import ConvoySupport
import Foundation

/// Temporary files for data that must have a path.
enum TemporaryBytes {
    /// Returns the path of an open, unnamed file that exists as long as the process.
    static func path(of data: Data) throws(ToolError) -> String {
        let name = FileManager.default.temporaryDirectory.appendingPathComponent("convoy-XXXXXX").path
        var template = Array(name.utf8CString)
        let descriptor = mkstemp(&template)
        guard descriptor >= 0 else { throw .disk("cannot store standard input: \(SystemError().text)") }
        unlink(template)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        do throws(SystemError) {
            try StandardStreams.write(data, to: descriptor) { true }
        } catch {
            close(descriptor)
            throw .disk("cannot store standard input: \(error.text)")
        }
        return "/proc/self/fd/\(descriptor)"
    }
}
