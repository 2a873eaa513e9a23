import ConvoySupport

/// The text format for cookies that curl, wget and browser extensions write: a line for each cookie, with seven fields
/// between tabs.
enum NetscapeCookies {
    static let title = """
        # Netscape HTTP Cookie File
        # https://curl.se/docs/http-cookies.html
        # Written by Convoy. The values are secrets.


        """

    private static let httpOnlyMark = Array("#HttpOnly_".utf8)
    private static let tab = UInt8(ascii: "\t")

    /// What a line holds.
    enum Line {
        /// A comment or nothing.
        case blank
        case cookie(Cookie)
        case bad
    }

    // MARK: Reading

    /// Parses a line without its end.
    ///
    /// - Parameter now: when the cookie counts as created, in microseconds since 1970.
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
        // Some programs leave out the last field if the value is empty.
        guard fields.count == 7 || fields.count == 6 else { return .bad }
        guard let includesSubdomains = flag(fields[1]), let isSecure = flag(fields[3]), let expires = seconds(fields[4])
        else { return .bad }
        let domain = fields[0].first == UInt8(ascii: ".") ? fields[0].dropFirst() : fields[0]
        guard let host = CookieHost.normalized(ASCII.text(domain)) else { return .bad }
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
        // Some programs write fractions.
        let digits = bytes.prefix { $0 != UInt8(ascii: ".") }
        guard !digits.isEmpty, digits.allSatisfy(ASCII.isDigit) else { return nil }
        return digits.reduce(Int64(0)) { min($0 * 10 + Int64($1 - UInt8(ascii: "0")), 1 << 40) }
    }

    // MARK: Writing

    /// The line of a cookie; nil for one that the format cannot hold: without a name, which curl would take the value
    /// for, or with a tab.
    static func line(_ cookie: Cookie) -> [UInt8]? {
        let parts = [cookie.nameBytes, cookie.valueBytes, Array(cookie.path.utf8), Array(cookie.domain.utf8)]
        func breaksLine(_ byte: UInt8) -> Bool { byte == tab || SetCookieField.isControl(byte) }
        guard !cookie.nameBytes.isEmpty, !parts.contains(where: { $0.contains(where: breaksLine) }) else { return nil }
        // A session cookie has 0, so that one that expires in the first second is not one.
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
