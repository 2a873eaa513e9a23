/// Functions that expand the patterns of a URL as curl does: `{a,b}`, `[1-10]`, `[001-100:2]` and `[a-z]`.
enum CurlGlob {
    /// Returns the URLs that a pattern represents, each with the values for `#1`, `#2` and so on in `-o`.
    ///
    /// - Throws: ``CurlCommandLine/Problem`` for a pattern that curl rejects, and for more than 1,000 URLs.
    static func expand(_ text: String) throws(CurlCommandLine.Problem) -> [(url: String, values: [String])] {
        var results: [(url: String, values: [String])] = [("", [])]
        var rest = text[...]
        while let next = rest.first {
            var values: [String]?
            if next == "{" {
                values = try set(&rest)
            } else if next == "[" {
                values = try range(&rest)
            } else if next == "\\", let escaped = rest.dropFirst().first, "{}[]".contains(escaped) {
                rest.removeFirst()
            }
            guard let values else {
                let character = rest.removeFirst()
                for index in results.indices { results[index].url.append(character) }
                continue
            }
            guard results.count * values.count <= 1000 else {
                throw CurlCommandLine.Problem(description: "The URL expands to more than 1,000 URLs.")
            }
            results = results.flatMap { result in
                values.map { (url: result.url + $0, values: result.values + [$0]) }
            }
        }
        return results
    }

    private static func set(_ rest: inout Substring) throws(CurlCommandLine.Problem) -> [String]? {
        var values = [""], inner = rest.dropFirst()
        while let next = inner.popFirst() {
            switch next {
            case "}":
                // Empty braces are literal.
                if values == [""] { return nil }
                rest = inner
                return values
            case ",": values.append("")
            case "\\": values[values.count - 1] += inner.popFirst().map { "\($0)" } ?? ""
            case "{", "[": throw problem(rest)
            default: values[values.count - 1].append(next)
            }
        }
        throw problem(rest)
    }

    /// Expands a range. Returns nil for an IPv6 address.
    private static func range(_ rest: inout Substring) throws(CurlCommandLine.Problem) -> [String]? {
        guard let end = rest.firstIndex(of: "]") else { throw problem(rest) }
        let pattern = rest[..<end].dropFirst()
        let colons = pattern.filter { $0 == ":" }.count
        if pattern.isEmpty || colons > 1 || pattern.contains("%") { return nil }
        let parts = pattern.split(separator: ":" as Character, maxSplits: 1, omittingEmptySubsequences: false)
        let bounds = parts[0].split(separator: "-" as Character, omittingEmptySubsequences: false).map(String.init)
        guard bounds.count == 2, let step = parts.count == 1 ? 1 : Int(parts[1]), step > 0 else { throw problem(rest) }
        let values: [String]
        if let first = Int(bounds[0]), let last = Int(bounds[1]), first <= last, first >= 0 {
            guard (last - first) / step < 1000 else {
                throw CurlCommandLine.Problem(description: "The URL expands to more than 1,000 URLs.")
            }
            let width = bounds[0].hasPrefix("0") ? bounds[0].count : 0
            values = stride(from: first, through: last, by: step).map { number in
                let digits = "\(number)"
                return String(repeating: "0", count: max(0, width - digits.count)) + digits
            }
        } else if let first = letter(bounds[0]), let last = letter(bounds[1]), first <= last {
            values = stride(from: first, through: last, by: step).map { String(Unicode.Scalar(UInt8($0))) }
        } else {
            throw problem(rest)
        }
        rest = rest[rest.index(after: end)...]
        return values
    }

    private static func letter(_ text: String) -> Int? {
        guard text.utf8.count == 1, let byte = text.utf8.first, Character(text).isLetter else { return nil }
        return Int(byte)
    }

    private static func problem(_ pattern: Substring) -> CurlCommandLine.Problem {
        CurlCommandLine.Problem(
            description: "Invalid pattern in the URL: \"\(pattern)\". With -g, braces and brackets are literal.")
    }
}
