import Convoy
import ConvoySupport
import Foundation

/// A reader for lists. It reads a list line by line, on demand, without keeping the lines in memory.
///
/// A file can be read a second time. A pipe is read once, as data arrives: an entry ends when the next one begins, or
/// when no more data arrives for a moment.
final class ListReader {
    /// The result of reading the next entry.
    enum Next {
        case entry(DownloadEntry)
        /// No entry arrived in time.
        case nothingYet
        case end
    }

    /// The name of the list, for messages.
    let name: String
    /// Whether the list can be read again.
    let isFile: Bool
    private let keepsDotSegments: Bool
    private let descriptor: Int32
    /// The offset at which the list begins, because standard input may have been read before.
    private let start: off_t
    private var bytes: [UInt8] = []
    private var block = [UInt8](repeating: 0, count: 64 << 10)
    /// The start of the next line in the buffer.
    private var next = 0
    private var line = 0
    private var isAtEnd = false
    /// The entry whose end has not been read yet.
    private var open: DownloadEntry?

    /// The maximum length of a line, in bytes.
    private static let longestLine = 1 << 20
    /// The time that an entry waits for its options, in milliseconds.
    private static let patience: Int32 = 250

    /// - Parameters:
    ///   - path: The path of the list, or `-` for standard input.
    ///   - keepsDotSegments: Whether dot segments in the paths of URLs are kept.
    init(_ path: String, keepingDotSegments keepsDotSegments: Bool = false) throws(ToolError) {
        self.keepsDotSegments = keepsDotSegments
        name = path == "-" ? "standard input" : Printable.line(path)
        descriptor = path == "-" ? STDIN_FILENO : Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .usage("cannot read --input-file \(name): \(SystemError().text)") }
        var facts = stat()
        isFile = fstat(descriptor, &facts) == 0 && facts.st_mode & S_IFMT == S_IFREG
        start = isFile ? lseek(descriptor, 0, SEEK_CUR) : 0
    }

    deinit { if descriptor > STDERR_FILENO { close(descriptor) } }

    /// Returns to the start of the list, if it is a file.
    func rewind() {
        guard isFile else { return }
        lseek(descriptor, start, SEEK_SET)
        bytes = []
        next = 0
        line = 0
        isAtEnd = false
        open = nil
    }

    /// Returns the whole contents of a Metalink, or nil if the file is a list. Must be called before any entries are
    /// read. Waits for the first byte, which distinguishes the two formats.
    func metalink() throws(ToolError) -> Data? {
        while true {
            if let first = bytes.first(where: { !" \t\r\n\u{FEFF}".utf8.contains($0) }) {
                guard first == UInt8(ascii: "<") else { return nil }
                break
            }
            guard !isAtEnd, bytes.count <= Self.longestLine else { return nil }
            try fill()
        }
        let rest = try InputFile.contents(
            of: descriptor, called: "--input-file \(name)", limit: DownloadList.maximumLength)
        return Data(bytes) + rest
    }

    /// Returns the next entry.
    ///
    /// - Parameter time: The maximum time to wait, in milliseconds, or -1 to wait indefinitely.
    /// - Throws: A usage error with the line number. The next call continues after that line.
    func next(within time: Int32 = -1) throws(ToolError) -> Next {
        while true {
            guard let range = try nextLine() else {
                if isAtEnd { return open.take().map { .entry($0) } ?? .end }
                let patience = open == nil ? time : time < 0 ? Self.patience : min(time, Self.patience)
                if isFile || waitForBytes(patience) {
                    try fill()
                    continue
                }
                return open.take().map { .entry($0) } ?? .nothingYet
            }
            if let entry = plainEntry(range) {
                if let whole = open.replace(with: entry) { return .entry(whole) }
                continue
            }
            guard let text = String(validating: bytes[range], as: UTF8.self) else {
                throw .usage("\(name):\(line): invalid UTF-8")
            }
            let words = text.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !words.isEmpty, !words.hasPrefix("#") else { continue }
            if text.utf8.first == UInt8(ascii: " ") || text.utf8.first == UInt8(ascii: "\t") {
                guard open != nil else { throw .usage("\(name):\(line): an option without a URL before it") }
                open?.options.append((line, words))
            } else {
                let entry = DownloadEntry(line: line, text: words, keepsDotSegments: keepsDotSegments)
                if let whole = open.replace(with: entry) { return .entry(whole) }
            }
        }
    }

    /// Returns the entry of a line that is nothing but a plain URL, or nil for any other line.
    private func plainEntry(_ range: Range<Int>) -> DownloadEntry? {
        bytes.withUnsafeBufferPointer { bytes in
            var text = UnsafeBufferPointer(rebasing: bytes[range])
            while text.last == UInt8(ascii: "\r") || text.last == UInt8(ascii: " ") {
                text = UnsafeBufferPointer(rebasing: text.dropLast())
            }
            guard DownloadURL.isPlain(text) else { return nil }
            return DownloadEntry(line: line, text: String(decoding: text, as: UTF8.self), isPlain: true)
        }
    }

    /// Returns the range of a line without its end, or nil if no complete line has been read.
    private func nextLine() throws(ToolError) -> Range<Int>? {
        let end: Int
        let length = bytes.count - next
        let newline = bytes.withUnsafeBufferPointer { bytes -> Int? in
            guard let start = bytes.baseAddress, let found = memchr(start + next, Int32(UInt8(ascii: "\n")), length) else {
                return nil
            }
            return UnsafeRawPointer(found) - UnsafeRawPointer(start)
        }
        if let newline {
            end = newline
        } else {
            guard length <= Self.longestLine else { throw giveUp("the line is longer than \(Self.longestLine) bytes") }
            guard isAtEnd, length > 0 else { return nil }
            end = bytes.count
        }
        line += 1
        var start = next
        next = min(end + 1, bytes.count)
        if line == 1, bytes[start..<end].starts(with: [0xEF, 0xBB, 0xBF]) { start += 3 }
        return start..<end
    }

    /// Stops reading, and returns the error to throw.
    private func giveUp(_ text: String) -> ToolError {
        bytes = []
        next = 0
        isAtEnd = true
        return .usage("\(name):\(line + 1): \(text)")
    }

    /// Reads more bytes.
    private func fill() throws(ToolError) {
        bytes.removeFirst(next)
        next = 0
        let result = read(descriptor, &block, block.count)
        let error = SystemError()
        if result > 0 { bytes += block[..<result] }
        if result == 0 { isAtEnd = true }
        if result < 0, error.code != EINTR {
            isAtEnd = true
            throw .usage("cannot read --input-file \(name): \(error.text)")
        }
    }

    /// Waits for bytes or the end of the file, for at most the given number of milliseconds.
    private func waitForBytes(_ time: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, time) != 0
    }
}

extension Optional {
    /// Sets a new value and returns the previous value.
    fileprivate mutating func replace(with value: Wrapped) -> Wrapped? {
        defer { self = value }
        return self
    }
}
