import CEpoll
import ConvoySupport
import Foundation

/// The folder that contains the request bodies to send, each in its own file. All methods block.
struct BodyFolder: Sendable {
    let path: String
    var calls = FileCalls()

    /// The minimum number of bodies that are synchronized with a single call, instead of one call each.
    private static let manyBodies = 16

    /// Opens or creates the folder. An existing one must belong to this user.
    init(_ path: String) throws(DownloadQueueError) {
        self.path = path
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(path)
        } catch {
            throw DownloadQueueError(error, path)
        }
    }

    func url(of body: StoredBody) -> URL { URL(fileURLWithPath: path).appendingPathComponent(body.name) }

    /// Returns whether a body exists with its recorded length.
    func contains(_ body: StoredBody) -> Bool {
        var information = stat()
        guard lstat(url(of: body).path, &information) == 0, PrivateFileProblem(ofFile: information) == nil else {
            return false
        }
        return Int64(information.st_size) == body.length
    }

    // MARK: Writing

    /// Stores all bodies on the disk. If that fails, none of them is kept.
    func store(_ bodies: [OutboxRequest.Body?]) throws(DownloadQueueError) -> [StoredBody?] {
        let count = bodies.reduce(0) { $1 == nil ? $0 : $0 + 1 }
        guard count > 0 else { return bodies.map { _ in nil } }
        var stored: [StoredBody?] = []
        do throws(DownloadQueueError) {
            for body in bodies {
                guard let body else { stored.append(nil); continue }
                stored.append(try store(body, synchronizes: count < Self.manyBodies))
            }
            try synchronize(all: count >= Self.manyBodies)
        } catch {
            remove(stored.compactMap(\.self))
            throw error
        }
        return stored
    }

    private func store(_ body: OutboxRequest.Body, synchronizes: Bool) throws(DownloadQueueError) -> StoredBody {
        let name = UUID().uuidString
        let file = "\(path)/\(name)"
        let descriptor: Int32
        do throws(PrivateFile.Failure) {
            descriptor = try PrivateFile.create(file, calls: calls)
        } catch {
            guard case .system(let cause) = error else { throw DownloadQueueError(error, file) }
            throw failure(file, cause.code)
        }
        let length: Int64
        do throws(DownloadQueueError) {
            switch body {
            case .data(let data): length = try write(data, descriptor, file)
            case .file(let source): length = try copy(source, descriptor, file)
            }
            if synchronizes, calls.synchronize(descriptor) != 0 { throw failure(file) }
        } catch {
            _ = calls.close(descriptor)
            _ = calls.unlink(file)
            throw error
        }
        guard calls.close(descriptor) == 0 || errno == EINTR else {
            let error = failure(file)
            _ = calls.unlink(file)
            throw error
        }
        return StoredBody(name: name, length: length)
    }

    private func write(_ data: Data, _ descriptor: Int32, _ file: String) throws(DownloadQueueError) -> Int64 {
        let code = data.withUnsafeBytes { write($0, descriptor) }
        if code != 0 { throw failure(file, code) }
        return Int64(data.count)
    }

    private func copy(_ source: URL, _ descriptor: Int32, _ file: String) throws(DownloadQueueError) -> Int64 {
        guard source.isFileURL else { throw .unreadableBody(source, "The URL is not a file URL.") }
        let reading = calls.open(source.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0)
        guard reading >= 0 else { throw .unreadableBody(source, SystemError().text) }
        defer { _ = calls.close(reading) }
        var information = stat()
        guard fstat(reading, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            throw .unreadableBody(source, "The path does not name a regular file.")
        }
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        var length: Int64 = 0
        while true {
            let count = buffer.withUnsafeMutableBytes { calls.readAt(reading, $0, length) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw .unreadableBody(source, SystemError().text) }
            if count == 0 { return length }
            let code = buffer.withUnsafeBytes { write(UnsafeRawBufferPointer(rebasing: $0[..<count]), descriptor) }
            if code != 0 { throw failure(file, code) }
            length += Int64(count)
        }
    }

    /// Writes all bytes. Returns the system's error code, or 0.
    private func write(_ bytes: UnsafeRawBufferPointer, _ descriptor: Int32) -> Int32 {
        var rest = bytes
        while !rest.isEmpty {
            let count = calls.write(descriptor, rest)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return count < 0 ? errno : EIO }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(count))
        }
        return 0
    }

    /// Synchronizes the names of new files, and the files themselves unless they have been synchronized individually.
    private func synchronize(all: Bool) throws(DownloadQueueError) {
        let folder = calls.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard folder >= 0 else { throw failure(path) }
        defer { _ = calls.close(folder) }
        if all {
            guard syncfs(folder) == 0 else { throw failure(path) }
        } else {
            // Some file systems cannot synchronize directories.
            guard calls.synchronize(folder) == 0 || errno == EINVAL || errno == EROFS else { throw failure(path) }
        }
    }

    private func failure(_ file: String, _ code: Int32 = errno) -> DownloadQueueError {
        let text = "\(file): \(SystemError(code: code).text)"
        return [ENOSPC, EDQUOT, EFBIG].contains(code) ? .diskFull(text) : .cannotWrite(text)
    }

    // MARK: Removing

    func remove(_ bodies: [StoredBody]) {
        for body in bodies { _ = calls.unlink("\(path)/\(body.name)") }
    }

    /// Removes all files that no entry needs: those of an incomplete `enqueue`, and those of entries removed just
    /// before the process ended.
    func removeAll(but bodies: some Sequence<StoredBody>) {
        let kept = Set(bodies.map(\.name))
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        where StoredBody.isName(name) && !kept.contains(name) {
            _ = calls.unlink("\(path)/\(name)")
        }
    }
}
