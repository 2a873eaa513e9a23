import ConvoyDownloads
import ConvoySecurity
import ConvoySupport
import Foundation

/// The file that stores the record of an upload, locked while the upload is running.
///
/// The file has two slots, written in turn, so that the previous entry stays intact while the next one is written. An
/// entry consists of a header line and a line of JSON:
///
/// ```
/// convoy-upload 1 42 183 9f86d081884c7d65
/// {"place":"…","shown":"https://…","parts":[{"url":"https://…","first":0,"end":1048576,"offset":524288,"bound":1048576}],…}
/// ```
///
/// The header contains the version, a number that increases with each entry, the length of the JSON text in bytes, and
/// a prefix of its SHA-256 digest, which detects torn entries. All methods block.
final class UploadJournal: @unchecked Sendable {
    let path: String
    private let calls: FileCalls
    private let state: Locked<State>

    private struct State {
        var descriptor: Int32
        var number: UInt64 = 0
    }

    private static let magic = "convoy-upload 1"

    /// Opens or creates the journal, and locks it.
    ///
    /// - Throws: ``UploadError/Reason/inUse`` while another upload is using it.
    init(_ path: String, calls: FileCalls) throws(UploadError) {
        self.path = path
        self.calls = calls
        state = Locked(State(descriptor: try Self.open(path, calls)))
    }

    deinit { close() }

    private static func open(_ path: String, _ calls: FileCalls) throws(UploadError) -> Int32 {
        for _ in 0..<16 {
            let descriptor: Int32
            do throws(PrivateFile.Failure) {
                descriptor = try PrivateFile.openOrCreate(path, O_RDWR, calls: calls)
            } catch {
                throw UploadError(.unusableJournal("\(path): \(error.reason)"))
            }
            var result: Int32
            repeat { result = calls.lock(descriptor) } while result != 0 && errno == EINTR
            guard result == 0 else {
                let error = SystemError()
                _ = calls.close(descriptor)
                throw error.code == EWOULDBLOCK
                    ? UploadError(.inUse) : UploadError(.unusableJournal("\(path): \(error.text)"))
            }
            // A previous upload may have removed the file between the calls that opened and locked it.
            if FileIdentity(path) == FileIdentity(descriptor) { return descriptor }
            _ = calls.close(descriptor)
        }
        throw UploadError(.inUse)
    }

    /// Returns the latest complete entry, if any.
    func read() -> UploadRecord? {
        let descriptor = state.withLock { $0.descriptor }
        guard descriptor >= 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: JournalLayout.placeSize * JournalLayout.placeCount)
        var count = 0
        while count < bytes.count {
            let read = bytes.withUnsafeMutableBytes { buffer in
                calls.readAt(descriptor, UnsafeMutableRawBufferPointer(rebasing: buffer[count...]), Int64(count))
            }
            if read < 0, errno == EINTR { continue }
            guard read > 0 else { break }
            count += read
        }
        let entries = (0..<JournalLayout.placeCount).map { $0 * JournalLayout.placeSize }.filter { $0 < count }
            .compactMap { Self.entry(bytes[$0..<min($0 + JournalLayout.placeSize, count)]) }
        guard let latest = entries.max(by: { $0.number < $1.number }) else { return nil }
        state.withLock { $0.number = latest.number }
        return latest.record
    }

    /// Writes an entry.
    ///
    /// - Parameter synchronizes: Whether the entry must survive a power failure.
    func write(_ record: UploadRecord, synchronizes: Bool) throws(UploadError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(record), let digest = Self.digest(of: json) else {
            throw UploadError(.unusableJournal("\(path): the entry cannot be encoded."))
        }
        try state.withLock { state throws(UploadError) in
            guard state.descriptor >= 0 else { return }
            state.number &+= 1
            let text = Self.text(state.number, json, digest)
            guard text.count <= JournalLayout.placeSize else {
                throw UploadError(.unusableJournal("\(path): the entry is too long."))
            }
            try write(text, at: JournalLayout.offset(of: state.number), to: state.descriptor)
            guard synchronizes else { return }
            _ = calls.synchronizeData(state.descriptor)
            if state.number <= 2 { synchronizeDirectory() }
        }
    }

    private func write(_ text: [UInt8], at offset: Int64, to descriptor: Int32) throws(UploadError) {
        var position = 0
        while position < text.count {
            let count = text.withUnsafeBytes { bytes in
                calls.writeAt(descriptor, UnsafeRawBufferPointer(rebasing: bytes[position...]), offset + Int64(position))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw UploadError(.unusableJournal("\(path): \(SystemError().text)")) }
            position += count
        }
    }

    private func synchronizeDirectory() {
        let directory = calls.open(PathText.directory(of: path), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)
        guard directory >= 0 else { return }
        _ = calls.synchronize(directory)
        _ = calls.close(directory)
    }

    /// Removes the file, after the upload has ended. If its directory is read-only, empties the file.
    func remove() {
        let descriptor = state.withLock { $0.descriptor }
        if descriptor >= 0, calls.unlink(path) != 0 { _ = calls.truncate(descriptor, 0) }
        close()
    }

    /// Closes the file, and removes it if it has no entry.
    func close() {
        let (descriptor, isEmpty) = state.withLock { state in
            defer { state.descriptor = -1 }
            return (state.descriptor, state.number == 0)
        }
        guard descriptor >= 0 else { return }
        var facts = stat()
        if isEmpty, fstat(descriptor, &facts) == 0, facts.st_size == 0 { _ = calls.unlink(path) }
        _ = calls.close(descriptor)
    }

    // MARK: Text

    /// Parses the entry in a slot; nil if it is missing or torn.
    static func entry(_ text: ArraySlice<UInt8>) -> (number: UInt64, record: UploadRecord)? {
        guard let end = text.prefix(200).firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let header = String(decoding: text[..<end], as: UTF8.self)
        guard header.utf8.starts(with: (magic + " ").utf8) else { return nil }
        let words = header.dropFirst(magic.count + 1).split(separator: " ")
        guard words.count == 3, let number = UInt64(words[0]), let length = Int(words[1]), length > 0,
            length <= text.endIndex - (end + 1)
        else { return nil }
        let json = Data(text[(end + 1)..<(end + 1 + length)])
        guard let digest = digest(of: json), digest.utf8.elementsEqual(words[2].utf8),
            let record = try? JSONDecoder().decode(UploadRecord.self, from: json), record.isSound
        else { return nil }
        return (number, record)
    }

    static func text(_ number: UInt64, _ json: Data, _ digest: String) -> [UInt8] {
        Array("\(magic) \(number) \(json.count) \(digest)\n".utf8) + Array(json) + [UInt8(ascii: "\n")]
    }

    static func digest(of json: Data) -> String? {
        MessageDigest.sha256(json).map { String($0.hexadecimalString.prefix(16)) }
    }
}

extension UploadRecord {
    /// Whether the numbers are consistent: the parts are contiguous, and only the last one may have no end yet.
    var isSound: Bool {
        guard digested >= 0 else { return false }
        var next: Int64? = 0
        for part in parts {
            guard part.first == next, part.offset >= 0, part.offset <= part.bound else { return false }
            if let end = part.end, end < part.first || part.bound > end - part.first { return false }
            next = part.end
        }
        return true
    }
}

/// The paths of an upload's journal.
enum UploadJournalPlace {
    static let suffix = ".convoyupload"

    /// The directory for the journals of files in directories that cannot be written to: `convoy/uploads` in
    /// `$XDG_STATE_HOME`, by default `~/.local/state`. Nil without a home directory.
    static var userDirectory: String? {
        func variable(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        let state = variable("XDG_STATE_HOME") ?? variable("HOME").map { PathText.join($0, ".local/state") }
        return state.map { PathText.join($0, "convoy/uploads") }
    }

    /// Returns the possible paths of the journal of an upload to a URL: beside the file and, with the digest of the
    /// file's path in its name, in the user's directory, which this method creates when the sequence reaches it. Each
    /// URL has a separate journal.
    static func paths(of file: URL, for url: URL, _ directory: String?) -> some Sequence<String> {
        let beside = path(of: file, for: url)
        return sequence(state: 0) { step -> String? in
            step += 1
            if step == 1 { return beside }
            guard step == 2, let directory, makeDirectory(directory) else { return nil }
            return inUserDirectory(directory, file, url)
        }
    }

    /// Returns the existing journals of an upload to a URL.
    static func existing(of file: URL, for url: URL, _ directory: String?) -> [String] {
        ([path(of: file, for: url)] + (directory.map { [inUserDirectory($0, file, url)] } ?? []))
            .filter { FileIdentity($0) != nil }
    }

    private static func path(of file: URL, for url: URL) -> String {
        PathText.join(PathText.directory(of: file.path), name(of: file, for: url, ""))
    }

    private static func inUserDirectory(_ directory: String, _ file: URL, _ url: URL) -> String {
        let path = file.absoluteURL.standardizedFileURL.path
        let place = MessageDigest.sha256(Data(path.utf8))?.hexadecimalString.prefix(12) ?? ""
        return PathText.join(directory, name(of: file, for: url, ".\(place)"))
    }

    private static func name(of file: URL, for url: URL, _ place: String) -> String {
        let ending = "\(place).\(ResourcePlace(url).digest.prefix(12))\(suffix)"
        var name = PathText.name(of: file.path)
        let limit = 255 - ending.utf8.count
        if name.utf8.count > limit {
            let whole = MessageDigest.sha256(Data(name.utf8))?.hexadecimalString.prefix(16) ?? ""
            while name.utf8.count + whole.utf8.count + 1 > limit { name.removeLast() }
            name += "-" + whole
        }
        return name + ending
    }

    /// Creates a directory for private files, and the directories above it. Returns whether it can be used.
    private static func makeDirectory(_ path: String) -> Bool {
        let parent = PathText.directory(of: path)
        if FileIdentity(parent) == nil { _ = makeDirectory(parent) }
        return (try? PrivateFile.makeDirectory(path)) != nil
    }
}
