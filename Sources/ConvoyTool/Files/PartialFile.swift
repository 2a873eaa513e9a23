import ConvoySupport
import Foundation

/// A file that is written under another name, `NAME.part`, and gets its own when it is whole.
///
/// Nobody's file is overwritten: not one that has the name already, not one that gets it meanwhile, and not a
/// partial file of somebody else, unless `replaces` is set.
struct PartialFile {
    let path: String
    let replaces: Bool
    private var writer: FileWriter?

    init(path: String, replaces: Bool) {
        self.path = path
        self.replaces = replaces
    }

    static func partialName(of name: String) -> String { name + ".part" }

    private var partial: String { Self.partialName(of: path) }
    var isOpen: Bool { writer != nil }

    /// Creates the partial file.
    mutating func create() throws(ToolError) {
        let created = try open()
        do throws(ToolError) {
            // Another run that was told to replace the file could be writing it, or have given it its name meanwhile.
            guard created.lock(), isOurs(created) else {
                throw .failure("\(shown(partial)) is not a file that only this download writes")
            }
            do throws(SystemError) { try created.rewind() } catch { throw problem("cannot write", partial, error) }
        } catch {
            try? created.close()
            throw error
        }
        writer = created
    }

    private func open() throws(ToolError) -> FileWriter {
        // Not through a link, and without waiting for a reader of a pipe.
        let flags = O_CREAT | O_NOFOLLOW | O_NONBLOCK
        do throws(SystemError) {
            return try FileWriter(path: partial, flags: flags | O_EXCL)
        } catch {
            guard error.code == EEXIST else { throw problem("cannot create", partial, error) }
        }
        guard replaces else {
            throw Self.partialExists(partial)
        }
        do throws(SystemError) {
            return try FileWriter(path: partial, flags: flags)
        } catch {
            throw problem("cannot create", partial, error)
        }
    }

    /// Appends bytes.
    mutating func write(_ bytes: UnsafeRawBufferPointer) throws(ToolError) {
        do throws(SystemError) { try writer?.write(bytes) } catch { throw problem("cannot write", partial, error) }
    }

    /// Forgets all bytes.
    mutating func rewind() throws(ToolError) {
        do throws(SystemError) { try writer?.rewind() } catch { throw problem("cannot write", partial, error) }
    }

    /// The file is whole: it gets its name. The partial file is gone afterwards, also when this fails.
    mutating func commit() throws(ToolError) {
        if !isOpen { try create() }
        // Does nothing once there is no writer any more.
        defer { discard() }
        if replaces {
            guard rename(partial, path) == 0 else { throw problem("cannot create", path) }
        } else {
            try link()
        }
        // The lock ends with the descriptor: until here no other run could take the partial file over.
        let whole = writer
        writer = nil
        do throws(SystemError) {
            try whole?.close()
        } catch {
            unlink(path)
            throw problem("cannot write", path, error)
        }
    }

    /// Removes the partial file.
    mutating func discard() {
        guard let writer else { return }
        unlink(partial)
        try? writer.close()
        self.writer = nil
    }

    /// Whether it is a plain file that has the partial file's name and no other.
    private func isOurs(_ file: FileWriter) -> Bool {
        var named = stat()
        guard let opened = try? file.information(), lstat(partial, &named) == 0 else { return false }
        return opened.st_mode & S_IFMT == S_IFREG && opened.st_nlink == 1
            && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev
    }

    /// As `rename`, but never over another file: a second name, then without the first.
    private func link() throws(ToolError) {
        if Glibc.link(partial, path) == 0 {
            unlink(partial)
            return
        }
        // A file system without hard links: an empty file of ours reserves the name, and is replaced.
        guard [EPERM, EOPNOTSUPP, ENOSYS, EMLINK].contains(errno) else { throw problem("cannot create", path) }
        do throws(SystemError) {
            try FileWriter(path: path, flags: O_CREAT | O_EXCL).close()
        } catch {
            throw problem("cannot create", path, error)
        }
        guard rename(partial, path) == 0 else {
            defer { unlink(path) }
            throw problem("cannot create", path)
        }
    }

    private func problem(_ what: String, _ path: String, _ error: SystemError = SystemError()) -> ToolError {
        if error.code == EEXIST { return Self.exists(path) }
        return .failure("\(what) \(shown(path)): \(error.text)")
    }

    private func shown(_ path: String) -> String { Printable.line(path) }

    static func partialExists(_ path: String) -> ToolError {
        .failure("\(Printable.line(path)) exists, of an interrupted or a running download; see --force")
    }

    static func exists(_ path: String) -> ToolError {
        .failure("file exists: \(Printable.line(path)); see --force")
    }
}
