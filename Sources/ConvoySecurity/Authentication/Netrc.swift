import ConvoySupport
import Foundation
import FoundationNetworking

/// The user names and passwords of a .netrc file, as curl, ftp and git read them.
///
///     machine api.example.com login ada password "two words"
///     default login anonymous password guest
///
/// Words are separated by spaces and ends of lines. A word in double quotes can have spaces in it, and the escapes `\n`,
/// `\r`, `\t`, `\"` and `\\`. What follows a `#` at the start of a word is a comment, so that a password that begins with
/// one has to be in quotes. `account` is read over, as is `macdef` with all lines until an empty one. Passwords are in
/// none of the texts that describe a value.
public struct Netrc: Sendable {
    /// What the file says of a host.
    struct Entry: Sendable {
        /// As in a protection space; nil for `default`.
        var host: String?
        var login: String?
        var password: String?
    }

    let entries: [Entry]

    /// The largest file, in bytes.
    private static let limit = 1 << 20

    /// Reads the text of a file.
    ///
    /// - Throws: `NetrcError.unterminatedQuote`, and `.tooLarge` with no file above 1 MiB.
    public init(text: String) throws(NetrcError) {
        guard text.utf8.count <= Self.limit else { throw .tooLarge(file: "") }
        var parser = NetrcParser(text)
        entries = try parser.entries()
    }

    /// Reads a file. Blocks.
    ///
    /// - Parameters:
    ///   - file: the file, for instance ``standardLocation``.
    ///   - allowingOthersToRead: whether a file that its group or everybody can read is fine.
    /// - Throws: `NetrcError`.
    public init(contentsOf file: URL, allowingOthersToRead: Bool = false) throws(NetrcError) {
        let data = try Self.contents(of: file, allowingOthersToRead: allowingOthersToRead)
        guard let text = String(validating: data, as: UTF8.self) else { throw .notText(file: file.path) }
        try self.init(text: text)
    }

    /// The file that the variable NETRC names, or else `.netrc` in the home directory, which the variable HOME names.
    public static var standardLocation: URL { standardLocation(in: ProcessInfo.processInfo.environment) }

    static func standardLocation(in environment: [String: String]) -> URL {
        if let path = environment["NETRC"], !path.isEmpty { return URL(fileURLWithPath: path) }
        // Foundation on Linux knows the home directory of the user only, not the one that the variable names.
        let home = environment["HOME"].flatMap { $0.isEmpty ? nil : URL(fileURLWithPath: $0) }
        return (home ?? FileManager.default.homeDirectoryForCurrentUser).appendingPathComponent(".netrc")
    }

    /// The credential for a host.
    ///
    /// - Parameters:
    ///   - host: the name or address, in any case.
    ///   - user: the user whose password is asked for; nil for the first one of the host.
    /// - Returns: the first entry of the host that has no other user. Only for a host that has no entry at all it is
    ///   `default`. What an entry does not say, user or password, is empty; nil if it says neither.
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

extension Netrc: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The number of entries.
    public var description: String { "netrc with \(entries.count) \(entries.count == 1 ? "entry" : "entries")" }

    /// The same as `description`.
    public var debugDescription: String { description }

    /// Nothing, so that `dump` prints no passwords.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
