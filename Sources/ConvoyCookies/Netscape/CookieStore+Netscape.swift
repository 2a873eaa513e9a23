import ConvoySupport
import Foundation

/// What was read from a file in Netscape's format.
public struct NetscapeCookieReport: Sendable, Hashable {
    /// How many cookies were stored, or removed others because they have expired.
    public var cookieCount = 0
    /// The numbers of the lines that are no cookies, beginning with 1.
    public var badLines: [Int] = []
    /// The numbers of the lines whose cookies the rules do not allow, such as those for a public suffix.
    public var refusedLines: [Int] = []
}

extension CookieStore {
    /// A store in memory with the cookies of a file in Netscape's format. Blocks while the file is read.
    ///
    /// - Throws: `CookieStoreError.cannotRead`. Bad lines are skipped.
    public convenience init(
        netscapeFile file: URL, limits: CookieLimits = CookieLimits()
    ) throws(CookieStoreError) {
        self.init(limits: limits)
        _ = try read(netscapeFile: file)
    }

    /// Adds the cookies of a file in Netscape's format, as curl, wget and browser extensions write it. Blocks while the
    /// file is read. As with curl, it may be anybody's: who names it trusts it.
    ///
    /// - Parameter file: at most 64 MiB.
    /// - Returns: how many cookies there were, and which lines were skipped.
    /// - Throws: `CookieStoreError.cannotRead`. Then nothing was added.
    @discardableResult
    public func read(netscapeFile file: URL) throws(CookieStoreError) -> NetscapeCookieReport {
        let bytes = try Self.contents(of: file.path)
        var report = NetscapeCookieReport()
        // Line by line: a list of all would take many times as much memory as the file.
        var rest: ArraySlice<UInt8>? = bytes[...]
        var index = -1
        while let text = rest {
            let end = text.firstIndex(of: UInt8(ascii: "\n"))
            rest = end.map { text[($0 + 1)...] }
            index += 1
            switch NetscapeCookies.parse(text[..<(end ?? text.endIndex)], at: now()) {
            case .blank: break
            case .bad: report.badLines.append(index + 1)
            case .cookie(var cookie):
                // So that they keep the order of the file.
                cookie.creationTime &+= Int64(index)
                if setCookie(cookie) { report.cookieCount += 1 } else { report.refusedLines.append(index + 1) }
            }
        }
        return report
    }

    /// Writes all cookies to a file in Netscape's format, session cookies too, with the mode 0600. Blocks.
    ///
    /// A file that is there is replaced as a whole, also where a link of this user's or root's leads to it. Until the new
    /// one is complete, it has a random name in the same directory. The format has no place for `SameSite`, for the times of
    /// creation and last use, and for fractions of seconds.
    ///
    /// - Returns: the cookies that the format cannot hold: without a name, or with a tab in the value.
    /// - Throws: `CookieStoreError.cannotWrite`, or `.isUnsafe` for a link of another user's. Then the file is as it was.
    @discardableResult
    public func writeNetscape(to file: URL) throws(CookieStoreError) -> [Cookie] {
        var left: [Cookie] = []
        var bytes = Array(NetscapeCookies.title.utf8)
        for cookie in cookies {
            if let line = NetscapeCookies.line(cookie) { bytes += line } else { left.append(cookie) }
        }
        do throws(PrivateFile.Failure) {
            try PrivateFile.replace(file.path, with: bytes)
        } catch {
            switch error {
            case .unsafe(.linkOfOther): throw .isUnsafe(file.path, reason: error.reason)
            default: throw .cannotWrite(file.path, reason: error.reason)
            }
        }
        return left
    }

    private static func contents(of path: String) throws(CookieStoreError) -> [UInt8] {
        // Without waiting for the writer of a pipe.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .cannotRead(path, reason: SystemError().text) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            throw .cannotRead(path, reason: "It is no regular file.")
        }
        do throws(FileContents.Failure) {
            return try FileContents.read(descriptor, limit: 64 << 20)
        } catch {
            throw .cannotRead(path, reason: error.reason)
        }
    }
}
