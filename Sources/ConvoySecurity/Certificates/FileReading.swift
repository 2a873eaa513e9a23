import ConvoySupport
import Foundation

/// Reading small files, pipes among them, with the system's own reason where that fails.
enum FileReading {
    /// No file of certificates or keys is larger, in bytes.
    private static let limit = 64 << 20

    /// A file that cannot be read, and why in a few words.
    struct Failure: Error { let reason: String }

    /// All bytes of a file. Blocks.
    static func data(of file: URL) throws(Failure) -> Data {
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure(reason: SystemError(code: errno).text) }
        defer { close(descriptor) }
        do throws(FileContents.Failure) {
            return Data(try FileContents.read(descriptor, limit: limit))
        } catch {
            throw Failure(reason: error.reason)
        }
    }

    /// The names of what is in a folder, but for its folders, in their order. Blocks.
    static func names(in folder: URL) throws(Failure) -> [String] {
        guard let directory = opendir(folder.path) else { throw Failure(reason: SystemError(code: errno).text) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            var facts = stat()
            guard fstatat(dirfd(directory), name, &facts, 0) != 0 || facts.st_mode & S_IFMT != S_IFDIR else { continue }
            names.append(name)
        }
        return names.sorted()
    }
}
