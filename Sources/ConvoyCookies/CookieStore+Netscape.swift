import ConvoySupport
import Foundation

/// The result of reading a file in Netscape format.
public struct NetscapeCookieReport: Sendable, Hashable {
    /// The number of cookies that were applied: stored or, if expired, used to remove others.
    public var cookieCount = 0
    /// The numbers of the invalid lines, starting at 1.
    public var badLines: [Int] = []
    /// The numbers of the lines whose cookies are rejected by the rules, for example because of a public suffix.
    public var refusedLines: [Int] = []
}

extension CookieStore {
    /// Creates an in-memory store with the cookies from a file in Netscape format. Blocks while reading the file.
    ///
    /// - Throws: `CookieStoreError.cannotRead`. Invalid lines are skipped.
    public convenience init(
        netscapeFile file: URL, limits: CookieLimits = CookieLimits()
    ) throws(CookieStoreError) {
        self.init(limits: limits)
        _ = try read(netscapeFile: file)
    }

    /// Adds the cookies from a file in Netscape format, as written by curl, wget and browser extensions. Blocks while
    /// reading the file. As in curl, the owner of the file is not checked.
    ///
    /// - Parameter file: The file, of at most 64 MiB.
    /// - Returns: The number of cookies, and the lines that were skipped.
    /// - Throws: `CookieStoreError.cannotRead`, without adding any cookies.
    @discardableResult
    public func read(netscapeFile file: URL) throws(CookieStoreError) -> NetscapeCookieReport {
        let bytes = try Self.contents(of: file.path)
        var report = NetscapeCookieReport()
        // Process the file by line, because a list of all lines would use many times its memory.
        // Some editors begin a file with a byte order mark.
        var rest: ArraySlice<UInt8>? = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
        var index = -1
        while let text = rest {
            let end = text.firstIndex(of: UInt8(ascii: "\n"))
            rest = end.map { text[($0 + 1)...] }
            index += 1
            switch NetscapeCookies.parse(text[..<(end ?? text.endIndex)], at: now()) {
            case .blank: break
            case .bad: report.badLines.append(index + 1)
            case .cookie(var cookie):
                // Give the cookies increasing creation times, to keep their order in the file.
                cookie.creationTime &+= Int64(index)
                if setCookie(cookie) { report.cookieCount += 1 } else { report.refusedLines.append(index + 1) }
            }
        }
        return report
    }

    /// Writes all cookies, including session cookies, to a file in Netscape format with the mode 0600. Blocks.
    ///
    /// An existing file is replaced atomically, also through a symbolic link that belongs to the current user or root.
    /// The new file has a random name in the same directory until it is complete. The format cannot represent
    /// `SameSite`, the times of creation and last use, or fractions of seconds.
    ///
    /// - Returns: The cookies that the format cannot represent: those without a name, and those with a tab in the
    ///   value.
    /// - Throws: `CookieStoreError.cannotWrite`, or `.isUnsafe` if a link belongs to another user. The file is then
    ///   unchanged.
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
        // Do not wait for the writer of a pipe.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw .cannotRead(path, reason: SystemError().text) }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            throw .cannotRead(path, reason: "The path does not name a regular file.")
        }
        do throws(FileContents.Failure) {
            return try FileContents.read(descriptor, limit: 64 << 20)
        } catch {
            throw .cannotRead(path, reason: error.reason)
        }
    }
}

/// The text format of curl, wget and browser extensions, which has one line per cookie, with seven tab-separated
/// fields.
enum NetscapeCookies {
    static let title = """
        # Netscape HTTP Cookie File
        # https://curl.se/docs/http-cookies.html
        # Written by Convoy. The values are secrets.


        """

    private static let httpOnlyMark = Array("#HttpOnly_".utf8)
    private static let tab = UInt8(ascii: "\t")

    /// A parsed line: a comment, a cookie or an invalid line.
    enum Line {
        /// A comment or an empty line.
        case blank
        case cookie(Cookie)
        case bad
    }

    // MARK: Reading

    /// Parses a line without its terminator.
    ///
    /// - Parameter now: The creation time of the cookie, in microseconds since 1970.
    static func parse(_ line: ArraySlice<UInt8>, at now: Int64) -> Line {
        var line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
        var isHTTPOnly = false
        if line.starts(with: httpOnlyMark) {
            isHTTPOnly = true
            line = line.dropFirst(httpOnlyMark.count)
        } else if line.first == UInt8(ascii: "#") {
            return .blank
        }
        if line.allSatisfy(ASCII.isWhitespace) { return .blank }
        let fields = line.split(separator: tab, omittingEmptySubsequences: false)
        // Some programs omit the last field if the value is empty.
        guard fields.count == 7 || fields.count == 6 else { return .bad }
        guard let includesSubdomains = flag(fields[1]), let isSecure = flag(fields[3]), let expires = seconds(fields[4])
        else { return .bad }
        let domain = fields[0].first == UInt8(ascii: ".") ? fields[0].dropFirst() : fields[0]
        guard let host = HostName.normalized(ASCII.text(domain)) else { return .bad }
        return .cookie(
            Cookie(
                nameBytes: Array(fields[5]), valueBytes: fields.count == 7 ? Array(fields[6]) : [], domain: host,
                isHostOnly: !includesSubdomains, path: ASCII.text(fields[2]), isSecure: isSecure,
                isHTTPOnly: isHTTPOnly, sameSite: .unspecified,
                expiryTime: expires == 0 ? nil : CookieTime.microseconds(seconds: expires), creationTime: now,
                accessTime: now))
    }

    private static func flag(_ bytes: ArraySlice<UInt8>) -> Bool? {
        if ASCII.equalIgnoringCase(bytes, "TRUE".utf8) { return true }
        return ASCII.equalIgnoringCase(bytes, "FALSE".utf8) ? false : nil
    }

    private static func seconds(_ bytes: ArraySlice<UInt8>) -> Int64? {
        // Some programs write fractions of seconds.
        let digits = bytes.prefix { $0 != UInt8(ascii: ".") }
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        return digits.reduce(Int64(0)) { min($0 * 10 + Int64($1 - UInt8(ascii: "0")), 1 << 40) }
    }

    // MARK: Writing

    /// Returns the line for a cookie; nil if the format cannot represent the cookie: if it contains a tab, or has no
    /// name, because curl would interpret the value as the name.
    static func line(_ cookie: Cookie) -> [UInt8]? {
        let parts = [cookie.nameBytes, cookie.valueBytes, Array(cookie.path.utf8), Array(cookie.domain.utf8)]
        func breaksLine(_ byte: UInt8) -> Bool { byte == tab || SetCookieField.isControl(byte) }
        guard !cookie.nameBytes.isEmpty, !parts.contains(where: { $0.contains(where: breaksLine) }) else { return nil }
        // 0 marks a session cookie, so a cookie that expires in the first second gets 1.
        let expires = cookie.expiryTime.map { max(1, $0 / CookieTime.second) } ?? 0
        var line = cookie.isHTTPOnly ? httpOnlyMark : []
        line += Array((cookie.isHostOnly ? cookie.domain : "." + cookie.domain).utf8)
        let middle =
            "\t\(cookie.isHostOnly ? "FALSE" : "TRUE")\t\(cookie.path)\t\(cookie.isSecure ? "TRUE" : "FALSE")\t\(expires)\t"
        line += Array(middle.utf8)
        line += cookie.nameBytes
        line.append(tab)
        line += cookie.valueBytes
        line.append(UInt8(ascii: "\n"))
        return line
    }
}
