import Convoy
import ConvoySupport
import Foundation

/// Reads a list line by line, as far as it is wanted. What it has read it does not keep.
///
/// A file can be read a second time. What comes through a pipe is read once, as it comes: an entry is over when the next
/// one begins, or when no more has come for a moment.
final class ListReader {
    /// What comes next.
    enum Next {
        case entry(DownloadEntry)
        /// Nothing has come in the time.
        case nothingYet
        case end
    }

    /// The list, for messages.
    let name: String
    /// Whether it can be read again.
    let isFile: Bool
    private let descriptor: Int32
    /// Where the file begins: standard input may have been read before.
    private let start: off_t
    private var bytes: [UInt8] = []
    private var block = [UInt8](repeating: 0, count: 64 << 10)
    /// Where the next line begins in them.
    private var next = 0
    private var line = 0
    private var isAtEnd = false
    /// The entry whose end has not come.
    private var open: DownloadEntry?

    /// No line is longer, in bytes.
    private static let longestLine = 1 << 20
    /// How long an entry waits for lines about it, in milliseconds.
    private static let patience: Int32 = 250

    /// - Parameter path: of the list; `-` for standard input.
    init(_ path: String) throws(ToolError) {
        name = path == "-" ? "standard input" : Printable.line(path)
        descriptor = path == "-" ? STDIN_FILENO : Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .usage("cannot read --input-file \(name): \(SystemError().text)") }
        var facts = stat()
        isFile = fstat(descriptor, &facts) == 0 && facts.st_mode & S_IFMT == S_IFREG
        start = isFile ? lseek(descriptor, 0, SEEK_CUR) : 0
    }

    deinit { if descriptor > STDERR_FILENO { close(descriptor) } }

    /// Begins again at the beginning.
    func rewind() {
        guard isFile else { return }
        lseek(descriptor, start, SEEK_SET)
        (bytes, next, line, isAtEnd, open) = ([], 0, 0, false, nil)
    }

    /// The whole of it, if it is a Metalink; nil if it is a list. To be called before anything else, and it waits until
    /// there is a byte that tells it.
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

    /// The next entry.
    ///
    /// - Parameter time: how long it may wait, in milliseconds; -1 for as long as it takes.
    /// - Throws: a usage error with the line. The next call goes on behind it.
    func next(within time: Int32 = -1) throws(ToolError) -> Next {
        while true {
            guard let text = try nextLine() else {
                if isAtEnd { return open.take().map { .entry($0) } ?? .end }
                let patience = open == nil ? time : time < 0 ? Self.patience : min(time, Self.patience)
                if isFile || waitForBytes(patience) {
                    try fill()
                    continue
                }
                return open.take().map { .entry($0) } ?? .nothingYet
            }
            let words = text.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !words.isEmpty, !words.hasPrefix("#") else { continue }
            if text.utf8.first == UInt8(ascii: " ") || text.utf8.first == UInt8(ascii: "\t") {
                guard open != nil else { throw .usage("\(name):\(line): an option, but no URL before it") }
                open?.options.append((line, words))
            } else if let whole = open.replace(with: DownloadEntry(line: line, text: words)) {
                return .entry(whole)
            }
        }
    }

    /// A line without its end; nil if there is none that is whole.
    private func nextLine() throws(ToolError) -> String? {
        let rest = bytes[next...]
        let end: Int
        if let newline = rest.firstIndex(of: UInt8(ascii: "\n")) {
            end = newline
        } else {
            guard rest.count <= Self.longestLine else {
                throw giveUp("it has more than \(Self.longestLine) bytes")
            }
            guard isAtEnd, !rest.isEmpty else { return nil }
            end = rest.endIndex
        }
        line += 1
        var content = rest[..<end]
        next = min(end + 1, bytes.endIndex)
        if line == 1, content.starts(with: [0xEF, 0xBB, 0xBF]) { content = content.dropFirst(3) }
        guard let text = String(validating: content, as: UTF8.self) else {
            throw .usage("\(name):\(line): it is not UTF-8")
        }
        return text
    }

    /// An error after which nothing more is read.
    private func giveUp(_ text: String) -> ToolError {
        (bytes, next, isAtEnd) = ([], 0, true)
        return .usage("\(name):\(line + 1): \(text)")
    }

    /// Reads more.
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

    /// Whether there are bytes, or the end, within so many milliseconds.
    private func waitForBytes(_ time: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, time) != 0
    }
}

extension Optional {
    /// Sets another value, and returns the one before.
    fileprivate mutating func replace(with value: Wrapped) -> Wrapped? {
        defer { self = value }
        return self
    }
}
