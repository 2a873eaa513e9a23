import CEpoll
import ConvoySupport
import Foundation

/// The folder of the bodies that are to be sent, each in a file of its own. All methods block.
struct BodyFolder: Sendable {
    let path: String
    var calls = FileCalls()

    /// From how many bodies on all are written to the disk by one call in place of one for each.
    private static let manyBodies = 16

    /// A folder that is made if it is not there. One that is there must be this user's.
    init(_ path: String) throws(DownloadQueueError) {
        self.path = path
        do throws(PrivateFile.Failure) {
            try PrivateFile.makeDirectory(path)
        } catch {
            throw DownloadQueueError(error, path)
        }
    }

    /// Whether a text is a name that the folder gives.
    static func isName(_ text: String) -> Bool { UUID(uuidString: text) != nil }

    func url(of body: StoredBody) -> URL { URL(fileURLWithPath: path).appendingPathComponent(body.name) }

    /// Whether a body is there with its length.
    func contains(_ body: StoredBody) -> Bool {
        var information = stat()
        guard lstat(url(of: body).path, &information) == 0, FileFlaw(ofFile: information) == nil else { return false }
        return Int64(information.st_size) == body.length
    }

    // MARK: Writing

    /// Writes bodies, all of which are on the disk when this returns; or none of them is left.
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
        guard source.isFileURL else { throw .unreadableBody(source, "It is not the URL of a file.") }
        let reading = calls.open(source.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0)
        guard reading >= 0 else { throw .unreadableBody(source, SystemError().text) }
        defer { _ = calls.close(reading) }
        var information = stat()
        guard fstat(reading, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            throw .unreadableBody(source, "It is not a regular file.")
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

    /// Writes all bytes. Returns the system's error, or 0.
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

    /// Brings the names of new files to the disk; and all files, where each has not been by itself.
    private func synchronize(all: Bool) throws(DownloadQueueError) {
        let folder = calls.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard folder >= 0 else { throw failure(path) }
        defer { _ = calls.close(folder) }
        if all {
            guard syncfs(folder) == 0 else { throw failure(path) }
        } else {
            // Some file systems cannot do that for directories.
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

    /// Removes all files that no entry needs: those of an enqueueing that was never completed, and of entries that were
    /// removed just before the process ended.
    func removeAll(but bodies: some Sequence<StoredBody>) {
        let kept = Set(bodies.map(\.name))
        for name in (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
        where Self.isName(name) && !kept.contains(name) {
            _ = calls.unlink("\(path)/\(name)")
        }
    }
}
