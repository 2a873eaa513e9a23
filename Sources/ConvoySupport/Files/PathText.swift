/// The parts of paths, by their bytes, as the system takes them. `NSString`'s `deletingLastPathComponent` stops the
/// program at a path of one character.
package enum PathText {
    private static let slash = UInt8(ascii: "/")

    /// The last component of a path; empty for one that ends in a slash.
    package static func name(of path: String) -> String {
        guard let last = path.utf8.lastIndex(of: slash) else { return path }
        return String(decoding: path.utf8[path.utf8.index(after: last)...], as: UTF8.self)
    }

    /// The directory in which the last component is: `.` for a path without slashes.
    package static func directory(of path: String) -> String {
        guard let last = path.utf8.lastIndex(of: slash) else { return "." }
        let directory = String(decoding: path.utf8[..<last], as: UTF8.self)
        return directory.utf8.allSatisfy { $0 == slash } ? "/" : directory
    }

    /// The path of a name in a directory, in its shortest form: the name alone in an empty one, and in `.`.
    package static func join(_ directory: String, _ name: String) -> String {
        if directory.isEmpty || directory == "." { return name }
        return directory.utf8.last == slash ? directory + name : "\(directory)/\(name)"
    }
}
