import ConvoySupport
import Foundation
import FoundationNetworking

/// The user names and passwords from a .netrc file, as read by curl, ftp and git.
///
///     machine api.example.com login ada password "two words"
///     default login anonymous password guest
///
/// Words are separated by spaces and line breaks. A word in double quotes can contain spaces, and the escapes `\n`,
/// `\r`, `\t`, `\"` and `\\`. A `#` at the start of a word begins a comment, so a password that begins with `#` must be
/// quoted. The parser skips `account` with its value, and `macdef` with all lines up to the next empty line. The
/// descriptions contain no passwords.
public struct Netrc: Sendable {
    /// The entry of a host.
    struct Entry: Sendable {
        /// The host, normalized as in a ``ProtectionSpace``; nil for `default`.
        var host: String?
        var login: String?
        var password: String?
    }

    let entries: [Entry]

    /// The maximum size of a file, in bytes.
    private static let limit = 1 << 20

    /// Parses the contents of a netrc file.
    ///
    /// - Throws: `NetrcError.unterminatedQuote`, or `.tooLarge` with an empty path if the string is larger than 1 MiB.
    public init(text: String) throws(NetrcError) {
        guard text.utf8.count <= Self.limit else { throw .tooLarge(file: "") }
        var parser = NetrcParser(text)
        entries = try parser.entries()
    }

    /// Reads a file. Blocks.
    ///
    /// - Parameters:
    ///   - file: The file, for example ``standardLocation``.
    ///   - allowingOthersToRead: Whether to accept a file that its group or all users can read.
    /// - Throws: `NetrcError`.
    public init(contentsOf file: URL, allowingOthersToRead: Bool = false) throws(NetrcError) {
        let data = try Self.contents(of: file, allowingOthersToRead: allowingOthersToRead)
        guard let text = String(validating: data, as: UTF8.self) else { throw .notText(file: file.path) }
        try self.init(text: text)
    }

    /// The file specified by the environment variable NETRC, or `.netrc` in the directory specified by HOME.
    public static var standardLocation: URL { standardLocation(in: ProcessInfo.processInfo.environment) }

    static func standardLocation(in environment: [String: String]) -> URL {
        if let path = environment["NETRC"], !path.isEmpty { return URL(fileURLWithPath: path) }
        // Read HOME here, because `homeDirectoryForCurrentUser` ignores it on Linux.
        let home = environment["HOME"].flatMap { $0.isEmpty ? nil : URL(fileURLWithPath: $0) }
        return (home ?? FileManager.default.homeDirectoryForCurrentUser).appendingPathComponent(".netrc")
    }

    /// Returns the credential for a host.
    ///
    /// - Parameters:
    ///   - host: The name or address, in any case.
    ///   - user: The user whose password is needed; nil for the host's first user.
    /// - Returns: The first entry of the host with that user or without a user, or the `default` entry if the host has
    ///   no entries. A missing user name or password becomes an empty string. If both are missing, the result is nil.
    public func credential(forHost host: String, user: String? = nil) -> URLCredential? {
        let host = ProtectionSpace.normalized(host: host)
        var candidates = entries.filter { $0.host == host }
        if candidates.isEmpty { candidates = entries.filter { $0.host == nil } }
        let fitting = candidates.first { entry in
            guard entry.login != nil || entry.password != nil else { return false }
            return user == nil || entry.login == nil || entry.login == user
        }
        return fitting.map { entry in
            URLCredential(
                user: entry.login ?? user ?? "", password: entry.password ?? "", persistence: .forSession)
        }
    }

    private static func contents(of file: URL, allowingOthersToRead: Bool) throws(NetrcError) -> Data {
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            let error = SystemError()
            throw error.code == ENOENT ? .notFound(file: file.path) : .unreadable(file: file.path, reason: error.text)
        }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0 else { throw .unreadable(file: file.path, reason: SystemError().text) }
        guard allowingOthersToRead || facts.st_mode & (S_IRGRP | S_IROTH) == 0 else {
            throw .readableByOthers(file: file.path)
        }
        do throws(FileContents.Failure) {
            return Data(try FileContents.read(descriptor, limit: limit))
        } catch {
            switch error {
            case .tooLarge: throw .tooLarge(file: file.path)
            case .system(let error): throw .unreadable(file: file.path, reason: error.text)
            }
        }
    }
}

extension Netrc: CustomStringConvertible, OpaqueReflectable {
    /// The number of entries.
    public var description: String { "netrc with \(entries.count) \(entries.count == 1 ? "entry" : "entries")" }
}

/// An error that prevents a .netrc file from being used.
public enum NetrcError: Error, Hashable, Sendable, SelfDescribingError {
    /// The file does not exist.
    case notFound(file: String)
    /// The file cannot be read. The value is the reason.
    case unreadable(file: String, reason: String)
    /// Other users can read the file and the passwords in it. Make the file private with `chmod 600`, or explicitly
    /// allow others to read it.
    case readableByOthers(file: String)
    /// The file is larger than 1 MiB.
    case tooLarge(file: String)
    /// The file is not valid UTF-8 text.
    case notText(file: String)
    /// A quoted word is not closed on its line. Lines are numbered from 1.
    case unterminatedQuote(line: Int)

    public var description: String {
        switch self {
        case .notFound(let file): "\(file) does not exist."
        case .unreadable(let file, let reason): "\(file) cannot be read: \(reason)"
        case .readableByOthers(let file): "\(file) contains passwords and can be read by other users. Run chmod 600."
        case .tooLarge(""): "The text is larger than 1 MiB."
        case .tooLarge(let file): "\(file) is larger than 1 MiB."
        case .notText(let file): "\(file) is not valid UTF-8 text."
        case .unterminatedQuote(let line): "Line \(line) of the netrc file has an unterminated quoted word."
        }
    }
}

/// A parser for .netrc files that follows the rules of curl's `lib/netrc.c`.
struct NetrcParser {
    private var rest: ArraySlice<UInt8>
    /// The line of the next byte, starting at 1.
    private var line = 1

    init(_ text: String) {
        let bytes = Array(text.utf8)
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        rest = bytes.starts(with: mark) ? bytes.dropFirst(mark.count) : bytes[...]
    }

    /// Parses all entries, in order. Unknown words are skipped.
    mutating func entries() throws(NetrcError) -> [Netrc.Entry] {
        var entries: [Netrc.Entry] = []
        while let keyword = try word() {
            switch keyword.lowercased() {
            case "machine":
                guard let host = try word() else { break }
                entries.append(Netrc.Entry(host: ProtectionSpace.normalized(host: host)))
            case "default": entries.append(Netrc.Entry(host: nil))
            case "login":
                guard let login = try word(), let last = entries.indices.last else { break }
                entries[last].login = entries[last].login ?? login
            case "password":
                guard let password = try word(), let last = entries.indices.last else { break }
                entries[last].password = entries[last].password ?? password
            case "account": _ = try word()
            case "macdef": skipMacro()
            default: break
            }
        }
        return entries
    }

    /// Returns the next word, without quotes and escapes, or nil at the end of the file.
    private mutating func word() throws(NetrcError) -> String? {
        while let byte = rest.first {
            if ASCII.isWhitespace(byte) {
                advance()
            } else if byte == UInt8(ascii: "#") {
                skipLine()
            } else if byte == UInt8(ascii: "\"") {
                return try quotedWord()
            } else {
                let word = rest.prefix { !ASCII.isWhitespace($0) }
                rest = rest[word.endIndex...]
                return String(decoding: word, as: UTF8.self)
            }
        }
        return nil
    }

    private mutating func quotedWord() throws(NetrcError) -> String {
        advance()
        var word: [UInt8] = []
        while let byte = rest.first, byte != UInt8(ascii: "\n") {
            advance()
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: word, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let escaped = rest.first, escaped != UInt8(ascii: "\n") else { break }
                advance()
                word.append(Self.unescaped(escaped))
            default: word.append(byte)
            }
        }
        throw .unterminatedQuote(line: line)
    }

    private static func unescaped(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "n"): UInt8(ascii: "\n")
        case UInt8(ascii: "r"): UInt8(ascii: "\r")
        case UInt8(ascii: "t"): UInt8(ascii: "\t")
        default: byte
        }
    }

    /// Skips a macro: the rest of its line, and all lines up to the next empty line.
    private mutating func skipMacro() {
        repeat { skipLine() } while !rest.isEmpty && rest.first != UInt8(ascii: "\n") && rest.first != UInt8(ascii: "\r")
    }

    private mutating func skipLine() {
        while let byte = rest.first {
            advance()
            if byte == UInt8(ascii: "\n") { return }
        }
    }

    private mutating func advance() {
        if rest.popFirst() == UInt8(ascii: "\n") { line += 1 }
    }
}
