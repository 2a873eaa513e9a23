/// The five parts of a URI reference, as bytes (RFC 3986, section 3).
struct URLParts {
    var scheme: ArraySlice<UInt8>?
    var authority: ArraySlice<UInt8>?
    var path: ArraySlice<UInt8>
    var query: ArraySlice<UInt8>?
    var fragment: ArraySlice<UInt8>?

    /// Splits a reference, like the expression in appendix B. Any text can be split.
    init(_ reference: ArraySlice<UInt8>) {
        var rest = reference
        if let mark = rest.firstIndex(of: UInt8(ascii: "#")) {
            fragment = rest[(mark + 1)...]
            rest = rest[..<mark]
        }
        if let mark = rest.firstIndex(of: UInt8(ascii: "?")) {
            query = rest[(mark + 1)...]
            rest = rest[..<mark]
        }
        if let end = rest.firstIndex(where: { !ByteSet.scheme.contains($0) }), rest[end] == UInt8(ascii: ":"),
            let first = rest.first, Self.isLetter(first)
        {
            scheme = rest[..<end]
            rest = rest[(end + 1)...]
        }
        if rest.starts(with: Self.slashes) {
            rest = rest.dropFirst(2)
            let end = rest.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            authority = rest[..<end]
            rest = rest[end...]
        }
        path = rest
    }

    /// The parts, each encoded; nil if the authority is invalid, or if the path would be taken for one.
    func encoded() -> URLParts? {
        var parts = self
        if let authority {
            guard let authority = URLAuthority(authority)?.bytes else { return nil }
            parts.authority = authority[...]
        } else if path.starts(with: Self.slashes) {
            return nil
        }
        parts.path = PercentEncoding.encoded(path, allowing: .path)
        parts.query = query.map { PercentEncoding.encoded($0, allowing: .query) }
        parts.fragment = fragment.map { PercentEncoding.encoded($0, allowing: .query) }
        return parts
    }

    /// The text of the reference (section 5.3).
    var text: String {
        var bytes: [UInt8] = []
        if let scheme { bytes += scheme + [UInt8(ascii: ":")] }
        if let authority { bytes += Self.slashes + authority }
        bytes += path
        if let query { bytes += [UInt8(ascii: "?")] + query }
        if let fragment { bytes += [UInt8(ascii: "#")] + fragment }
        return String(decoding: bytes, as: UTF8.self)
    }

    var isHTTP: Bool {
        guard let scheme else { return false }
        return ASCII.equalIgnoringCase(scheme, "http".utf8) || ASCII.equalIgnoringCase(scheme, "https".utf8)
    }

    var hasHost: Bool { authority.flatMap(URLAuthority.init).map { !$0.host.isEmpty } ?? false }

    // MARK: Resolving

    /// Merges a relative path with the path of this base (section 5.2.3).
    func merged(with relative: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        if authority != nil, path.isEmpty { return [UInt8(ascii: "/")] + relative }
        let end = path.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? path.startIndex
        return path[..<end] + relative
    }

    /// Resolves `.` and `..` (section 5.2.4).
    static func removingDotSegments(_ path: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let dot = UInt8(ascii: "."), slash = UInt8(ascii: "/")
        guard path.contains(dot) else { return path }
        var output: [UInt8] = []
        output.reserveCapacity(path.count)
        // Segment by segment; only the first one of a relative path has no slash before it.
        var rest = path
        while !rest.isEmpty {
            let isAfterSlash = rest.first == slash
            let start = isAfterSlash ? rest.startIndex + 1 : rest.startIndex
            let end = rest[start...].firstIndex(of: slash) ?? rest.endIndex
            let segment = rest[start..<end]
            let isLast = end == rest.endIndex
            rest = rest[end...]
            if segment.elementsEqual([dot]) || segment.elementsEqual([dot, dot]) {
                if segment.count == 2, isAfterSlash {
                    output.removeSubrange((output.lastIndex(of: slash) ?? output.startIndex)...)
                }
                if isAfterSlash {
                    if isLast { output.append(slash) }
                } else {
                    // The slash after it is removed with it.
                    rest = rest.dropFirst()
                }
            } else {
                if isAfterSlash { output.append(slash) }
                output += segment
            }
        }
        return output[...]
    }

    private static let slashes: [UInt8] = [UInt8(ascii: "/"), UInt8(ascii: "/")]

    private static func isLetter(_ byte: UInt8) -> Bool {
        byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z")
    }
}
