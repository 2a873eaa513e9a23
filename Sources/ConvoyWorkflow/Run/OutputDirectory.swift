import ConvoySupport
import Foundation

/// The output directory of a run.
final class OutputDirectory: Sendable {
    let directory: URL
    let replaces: Bool
    /// The owners of outputs, by the bytes of the paths: names whose accents are encoded differently are different files.
    private let owners = Locked<[Data: String]>([:])

    init(_ directory: URL, replaces: Bool) {
        self.directory = directory
        self.replaces = replaces
    }

    /// Returns the destination of an output, and creates its directories. No two requests may have the same destination.
    ///
    /// - Parameter owner: The request and its item.
    func place(of path: String, for owner: String) throws(EvaluationError) -> URL {
        let first = owners.withLock { owners in
            let key = Data(path.utf8)
            owners[key] = owners[key] ?? owner
            return owners[key]
        }
        guard first == owner else {
            throw EvaluationError(message: "another request has the same output: \(path)")
        }
        var place = directory
        guard (try? FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)) != nil else {
            throw EvaluationError(message: "cannot create the directory \(directory.relativePath)", isAboutFile: true)
        }
        for component in PathText.components(of: path).dropLast() {
            place.appendPathComponent(component, isDirectory: true)
            if mkdir(place.path, 0o777) != 0, errno != EEXIST {
                throw EvaluationError(
                    message: "cannot create the directory \(place.relativePath): \(SystemError().text)", isAboutFile: true)
            }
            var information = stat()
            // A symbolic link could lead outside the output directory.
            guard lstat(place.path, &information) == 0, information.st_mode & S_IFMT == S_IFDIR else {
                throw EvaluationError(message: "\(place.relativePath) is not a directory, or is a link", isAboutFile: true)
            }
        }
        let file = file(path)
        var information = stat()
        if lstat(file.path, &information) == 0, information.st_mode & S_IFMT != S_IFREG {
            throw EvaluationError(message: "\(file.relativePath) exists and is not a regular file", isAboutFile: true)
        }
        return file
    }

    /// Returns the URL of an output for messages, without a leading `./`.
    func file(_ path: String) -> URL {
        directory.relativePath == "." ? UserPath.url(path) : directory.appendingPathComponent(path)
    }

    /// Writes a body to its file atomically.
    func write(_ data: Data, to file: URL) throws(EvaluationError) {
        do throws(FileWritingError) {
            let writer = FileWriter(path: file.path, partialPath: file.path + ".part", replaces: replaces)
            try writer.open()
            try writer.write(Array(data))
            try writer.commit()
        } catch {
            throw EvaluationError(message: "cannot write \(file.relativePath): \(error.cause.text)", isAboutFile: true)
        }
    }
}
