import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import Foundation

/// A file that a request sends, as its body or as a part of it.
struct SentFile {
    /// The contents of the file. Pipes and other special files are read immediately.
    enum Contents {
        case file(URL)
        case data(Data)
    }

    let name: String
    let contents: Contents
    /// The path, the length and the time of the last change, for the journal.
    let identity: String

    /// Opens a file. If a value of a response is part of its path, the file must be below the directory that the manifest
    /// names.
    ///
    /// - Parameter reads: Whether to read a file that can be read only once.
    init(_ template: Template, in scope: some Scope, reads: Bool) throws(EvaluationError) {
        let path = try Self.path(of: template, in: scope)
        var information = stat()
        if access(path, R_OK) != 0 || stat(path, &information) != 0 {
            throw NamedFile.failure(path, SystemError().text)
        }
        name = PathText.name(of: path)
        switch information.st_mode & S_IFMT {
        case S_IFREG:
            contents = .file(UserPath.url(path))
            let time = Double(information.st_mtim.tv_sec) + Double(information.st_mtim.tv_nsec) / 1e9
            identity = "\(path) \(information.st_size) \(time)"
        case S_IFDIR: throw NamedFile.failure(path, SystemError(code: EISDIR).text)
        default:
            identity = path
            contents = .data(reads ? try NamedFile.contents(of: path, allowsPipes: true) : Data())
        }
    }

    private static func path(of template: Template, in scope: some Scope) throws(EvaluationError) -> String {
        var path = "", start: String?
        for piece in template.pieces {
            let value = try piece.value(in: scope)
            if value.isHostile { start = start ?? path }
            path += value.isHostile ? try Escaping.fileName(value.json.text) : value.json.text
        }
        guard !path.utf8.contains(0) else {
            throw EvaluationError(
                message: "invalid file \(quoted(path, isCut: false)): it contains a NUL character",
                isAboutFile: true)
        }
        let resolved = try scope.files.path(of: path)
        // A path chosen by a response must not leave the directory through a symbolic link.
        if let start, FileRoot.isInside(try scope.files.path(of: PathText.directory(of: start + "_")), resolved) == false {
            throw EvaluationError(
                message: "invalid file \(quoted(path, isCut: false)): a value leads to another directory", isAboutFile: true)
        }
        return resolved
    }
}
