import Foundation

/// What a path is that is none of a file.
enum SpecialFile {
    /// Whether a path is another name of standard output.
    static func isStandardOutput(_ path: String) -> Bool {
        ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].contains(path)
    }

    /// Whether what has this path is written as it is: a device, a pipe, or a descriptor.
    static func isStream(_ path: String) -> Bool {
        if path == "/dev/stderr" || path.hasPrefix("/dev/fd/") || path.hasPrefix("/proc/self/fd/") { return true }
        var information = stat()
        guard stat(path, &information) == 0 else { return false }
        return [S_IFCHR, S_IFIFO].contains(information.st_mode & S_IFMT)
    }
}
