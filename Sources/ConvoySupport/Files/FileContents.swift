import Foundation

/// Reads whole files.
package enum FileContents {
    /// The reason a file cannot be read.
    package enum Failure: Error, Hashable, Sendable {
        case system(SystemError)
        /// The file has more bytes than the limit.
        case tooLarge(limit: Int)

        /// The reason, as one short sentence or the system's error text.
        package var reason: String {
            switch self {
            case .system(let error): error.text
            case .tooLarge(let limit): "The file is larger than \(limit >> 20) MiB."
            }
        }
    }

    /// Reads all bytes of an open file, from its current offset. The call may block.
    ///
    /// - Parameter limit: The maximum size, in bytes.
    package static func read(_ descriptor: Int32, limit: Int) throws(Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count == 0 { return bytes }
            if count < 0 {
                let error = SystemError()
                if error.code == EINTR { continue }
                throw .system(error)
            }
            bytes += buffer[..<count]
            guard bytes.count <= limit else { throw .tooLarge(limit: limit) }
        }
    }
}

/// Splits and joins paths as bytes, as the system does. `NSString`'s `deletingLastPathComponent` traps on a
/// one-character path.
package enum PathText {
    private static let slash = UInt8(ascii: "/")

    /// Returns the components of a path, including empty ones. The path is split as bytes: Swift treats a slash
    /// followed by a combining accent as a different `Character`, but the system and servers still treat it as a slash.
    package static func components(of path: String) -> [String] {
        path.utf8.split(separator: slash, omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Returns the last component of a path. It is empty if the path ends in a slash.
    package static func name(of path: String) -> String {
        guard let last = path.utf8.lastIndex(of: slash) else { return path }
        return String(decoding: path.utf8[path.utf8.index(after: last)...], as: UTF8.self)
    }

    /// Returns the path of a file URL, or nil for other URLs and for directory URLs. Faster than Foundation if no
    /// percent-decoding is needed, which is the common case.
    package static func path(ofFile url: URL) -> String? {
        var text = url.absoluteString
        let plain = text.withUTF8 { text -> String? in
            guard text.count > 8, let start = text.baseAddress, memcmp(start, "file:///", 8) == 0,
                text.last != slash, text.last != UInt8(ascii: "."),
                !text.contains(where: { $0 == UInt8(ascii: "%") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") })
            else { return nil }
            return String(decoding: text[7...], as: UTF8.self)
        }
        return plain ?? (url.isFileURL && !url.hasDirectoryPath ? url.path : nil)
    }

    /// Returns the directory that contains the last component, or `.` for a path without slashes.
    package static func directory(of path: String) -> String {
        guard let last = path.utf8.lastIndex(of: slash) else { return "." }
        let directory = String(decoding: path.utf8[..<last], as: UTF8.self)
        return directory.utf8.allSatisfy { $0 == slash } ? "/" : directory
    }

    /// Joins a directory and a name. The result is the name alone if the directory is empty or `.`.
    package static func join(_ directory: String, _ name: String) -> String {
        if directory.isEmpty || directory == "." { return name }
        return directory.utf8.last == slash ? directory + name : directory + "/" + name
    }
}
