import ConvoyDownloads
import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking
import Glibc

/// Destinations for downloaded files.
extension Session {
    /// Determines the destination of a complete file, and moves the file there. Called on any thread.
    ///
    /// - Parameter answer: Called once with the URL of the file, on a thread that may block.
    func place(
        _ file: URL, of operation: HTTPRequestOperation, _ record: TaskRecord, _ response: HTTPURLResponse?,
        _ answer: @escaping @Sendable (Result<URL, any Error>) -> Void
    ) {
        handlerQueue.async { [self] in
            guard let task = record.task(of: operation) as? SessionDownloadTask else { return answer(.success(file)) }
            // The file of a cancelled task is not needed.
            if operation.isCancelled { return discard(file, answer) }
            let ofSession = handlers.get(\.didFinishDownloading)?(task, file)
            guard let place = ofSession ?? record.destination?(file, response) else { return answer(.success(file)) }
            BlockingWorkers.shared.perform { [self] in
                if operation.isCancelled { return discard(file, answer) }
                do {
                    try FileRelocation.move(file, to: place)
                    post(.networkingDownloadTaskDidMoveFile, of: task, [TaskNotificationKey.assetPath: place])
                    answer(.success(place))
                } catch {
                    let failure = DownloadMoveError(file: file, destination: place, underlyingError: error)
                    let facts: [String: any Sendable] = [
                        TaskNotificationKey.assetPath: file, TaskNotificationKey.error: failure,
                    ]
                    post(.networkingDownloadTaskDidFailToMoveFile, of: task, facts)
                    answer(.failure(failure))
                }
            }
        }
    }

    private func discard(_ file: URL, _ answer: @escaping @Sendable (Result<URL, any Error>) -> Void) {
        BlockingWorkers.shared.perform {
            try? FileManager.default.removeItem(at: file)
            answer(.failure(URLError(.cancelled)))
        }
    }

    /// Creates a suspended download to a temporary file, which is moved when complete.
    ///
    /// - Parameter name: The name of a partial file to resume; nil for a new file.
    func makeDownload(
        _ request: URLRequest, resuming name: String?, _ destination: DownloadDestination?
    ) -> (TaskRecord, DownloadOperation) {
        let download = DownloadOperation(request: request)
        giveSettings(to: download)
        download.pause()
        download.destination = name.map(files.file) ?? files.newFile()
        download.usesServerFileName = false
        do {
            try files.prepare()
        } catch {
            download.fail(with: error)
        }
        let record = adopt(download, as: .download)
        record.destination = destination
        download.relocation = { [weak download, weak record, self] file, response, answer in
            guard let download, let record else { return answer(.success(file)) }
            place(file, of: download, record, response, answer)
        }
        return (record, download)
    }
}

/// The error of a complete download whose file cannot be moved to its destination. The task fails, and the file is kept
/// for at least an hour; see ``SessionConfiguration/temporaryDirectory``.
public struct DownloadMoveError: Error, Sendable {
    /// The complete file.
    public let file: URL
    /// The intended destination.
    public let destination: URL
    /// The reason: `DownloadError.fileExists`, `DownloadError.unusableDestination` or `URLError.cannotWriteToFile`.
    public let underlyingError: any Error
}

extension DownloadMoveError: SelfDescribingError {
    /// The description of the underlying error, and the path of the complete file.
    public var description: String {
        "\(underlyingError.localizedDescription) The complete file is at \(file.path)."
    }
}

/// Moves a downloaded file to its destination.
enum FileRelocation {
    /// Moves a file, possibly to another file system. Never replaces an existing file.
    ///
    /// - Throws: `DownloadError.fileExists`, `DownloadError.unusableDestination` or `URLError.cannotWriteToFile`. In
    ///   that case, the file is not moved.
    static func move(_ file: URL, to place: URL, calls: FileCalls = FileCalls()) throws {
        let (old, new) = (file.path, place.path)
        guard place.isFileURL, !place.hasDirectoryPath, !new.isEmpty else { throw DownloadError.unusableDestination(place) }
        if old.utf8.elementsEqual(new.utf8) { return }
        do throws(FileWritingError) {
            do throws(FileWritingError) {
                try FileRenaming(calls: calls).rename(old, to: new, replaces: false)
            } catch {
                guard error.cause.code == EXDEV else { throw error }
                try copy(old, to: new, calls)
                _ = calls.unlink(old)
            }
        } catch {
            if error.reason == .exists { throw DownloadError.fileExists(place) }
            throw URLError(writing: place, url: nil, underlying: error.posixError)
        }
    }

    /// Copies a file to a partial file next to the destination, and renames that file when complete.
    private static func copy(_ old: String, to new: String, _ calls: FileCalls) throws(FileWritingError) {
        let partial = PathText.join(
            PathText.directory(of: new), ".convoy-\(String(UInt64.random(in: 0 ... .max), radix: 36)).part")
        let source = calls.open(old, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0)
        guard source >= 0 else { throw FileWritingError(.cannotCreate, old, errno) }
        defer { _ = calls.close(source) }
        let writer = FileWriter(path: new, partialPath: partial, replaces: false, calls: calls)
        defer { writer.discard() }
        try writer.open()
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var offset: Int64 = 0
        while true {
            let count = buffer.withUnsafeMutableBytes { calls.readAt(source, $0, offset) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw FileWritingError(.cannotWrite, old, errno) }
            if count == 0 { break }
            try writer.write(Array(buffer[..<count]))
            offset += Int64(count)
        }
        try writer.commit()
    }
}

/// The directory for files that are being downloaded.
///
/// It must not be writable by other users: the names of its files cannot be guessed, but resume data contains them.
/// Files left behind by killed processes are limited in age and size.
struct TemporaryFiles: Sendable {
    let directory: URL

    init(_ directory: URL) { self.directory = directory }

    /// Returns the URL of a file with a new random name.
    func newFile() -> URL {
        let digits = (0..<4).map { _ in
            let number = String(UInt32.random(in: 0 ... .max), radix: 16)
            return String(repeating: "0", count: 8 - number.utf8.count) + number
        }
        return file(digits.joined())
    }

    /// Returns whether a file is in the directory.
    func contains(_ file: URL) -> Bool {
        file.isFileURL && PathText.directory(of: file.path).utf8.elementsEqual(directory.path.utf8)
    }

    func file(_ name: String) -> URL { directory.appendingPathComponent(name, isDirectory: false) }

    /// Creates the directory if it is missing, and checks its owner and mode.
    ///
    /// - Throws: ``SessionError``.
    func prepare() throws {
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(directory.path)
        } catch {
            guard case .system(let cause) = error else { throw SessionError.unsafeDirectory(directory) }
            throw SessionError.unusableDirectory(directory, code: cause.code)
        }
        guard Self.tidied.withLock({ $0.insert(directory.path).inserted }) else { return }
        BlockingWorkers.shared.perform { removeLeftovers() }
    }

    // MARK: Leftovers of killed processes

    /// The directories that this process has cleaned up.
    private static let tidied = Locked<Set<String>>([])

    /// The maximum age of unused files, in seconds, and their maximum total size, in bytes.
    static let (longestAge, mostBytes): (TimeInterval, Int64) = (7 * 86400, 4 << 30)
    /// The minimum age of files to remove, in seconds. Younger files may still be moved or resumed.
    private static let shortestAge: TimeInterval = 3600

    /// Removes files older than a week, and the oldest files beyond a total of 4 GiB, unless a download has them open.
    /// Blocks.
    func removeLeftovers(now: Date = Date()) {
        struct Leftover {
            var names: [String] = []
            var bytes: Int64 = 0
            var changed = Date.distantPast
        }
        var found: [Substring: Leftover] = [:]
        for name in (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [] {
            // Match the names from `newFile()`: 32 digits, followed by the suffixes that a download adds.
            let stem = name.prefix { $0 != "." }
            var facts = stat()
            guard stem.utf8.count == 32, stem.allSatisfy(\.isHexDigit), lstat(file(name).path, &facts) == 0,
                facts.st_mode & S_IFMT == S_IFREG
            else { continue }
            found[stem, default: Leftover()].names.append(name)
            found[stem, default: Leftover()].bytes += Int64(facts.st_blocks) * 512
            let changed = Date(timeIntervalSince1970: TimeInterval(facts.st_mtim.tv_sec))
            found[stem, default: Leftover()].changed = max(changed, found[stem]?.changed ?? changed)
        }
        var bytes: Int64 = 0
        for leftover in found.values.sorted(by: { $0.changed > $1.changed }) {
            bytes += leftover.bytes
            let age = now.timeIntervalSince(leftover.changed)
            guard age > Self.longestAge || bytes > Self.mostBytes && age > Self.shortestAge,
                !leftover.names.contains(where: isInUse)
            else { continue }
            for name in leftover.names { try? FileManager.default.removeItem(at: file(name)) }
        }
    }

    private func isInUse(_ name: String) -> Bool {
        let calls = FileCalls()
        let descriptor = calls.open(file(name).path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0)
        guard descriptor >= 0 else { return false }
        defer { _ = calls.close(descriptor) }
        return calls.lock(descriptor) != 0
    }

    /// Returns the resume data of the largest partial file of a resource that no download has open, if any. The
    /// journals of the partial files identify their resources. Blocks.
    func resumeData(for url: URL) -> ResumeData? {
        let suffix = PartialPaths.journalSuffix
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? []
        return names.filter { $0.hasSuffix(suffix) }.map { String($0.dropLast(suffix.utf8.count)) }
            .filter { !isInUse($0 + PartialPaths.partialSuffix) }
            .compactMap { ResumeData(url: url, ofPartialFile: $0, in: directory) }
            .max { $0.byteCount < $1.byteCount }
    }

    /// The user's default directory.
    static var standard: URL {
        URL(fileURLWithPath: NSTemporaryDirectory(), isDirectory: true)
            .appendingPathComponent("convoy-downloads-\(geteuid())", isDirectory: true)
    }
}
