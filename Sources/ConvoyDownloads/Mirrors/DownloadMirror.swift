import ConvoySupport
import ConvoyTransport
import Foundation

/// An alternative URL of a file, as listed by a server or a Metalink.
public struct DownloadMirror: Sendable, Hashable {
    /// The http or https URL of the file, without user information.
    public let url: URL
    /// The priority, from 1 (highest) to 999999; nil if not specified, which ranks last.
    public let priority: Int?
    /// The country of the server (ISO 3166-1), in lowercase; nil if not specified.
    public let location: String?

    /// Creates a mirror.
    ///
    /// - Parameters:
    ///   - url: The URL of the file.
    ///   - priority: The priority, from 1 to 999999; other numbers are ignored.
    ///   - location: The country of the server (ISO 3166-1).
    public init(url: URL, priority: Int? = nil, location: String? = nil) {
        self.url = url
        self.priority = priority.flatMap { Self.priorities.contains($0) ? $0 : nil }
        self.location = location
    }

    /// Creates a mirror from a document; nil if the URL is invalid, is neither http nor https, or contains user
    /// information. A document must not choose the user name and password that the client sends (RFC 9110, section
    /// 4.2.4).
    init?(_ reference: String, relativeTo base: URL?, priority: String?, location: String?) {
        guard let url = URLReference.url(reference, relativeTo: base), let address = HTTPAddress(url.absoluteString),
            !address.hasUserInfo
        else { return nil }
        self.init(
            url: url, priority: priority.flatMap { DecimalNumber.parse($0.utf8) }.flatMap { Int(exactly: $0) },
            location: location.flatMap { $0.isEmpty ? nil : String($0.lowercased().prefix(16)) })
    }

    /// Returns the mirrors from best to worst, in their original order if they have the same priority, without
    /// duplicate URLs.
    static func sorted(_ mirrors: [DownloadMirror]) -> [DownloadMirror] {
        let ordered = mirrors.enumerated().sorted {
            let (one, other) = ($0.element.priority ?? .max, $1.element.priority ?? .max)
            return one == other ? $0.offset < $1.offset : one < other
        }
        var seen: Set<[UInt8]> = []
        return ordered.map(\.element).filter { seen.insert(Self.text(of: $0.url)).inserted }
    }

    private static func text(of url: URL) -> [UInt8] {
        Array((HTTPAddress(url.absoluteString)?.text ?? url.absoluteString).utf8)
    }

    /// The valid priorities (RFC 5854, section 4.2.16.1, and RFC 6249, section 3.1).
    private static let priorities = 1...999_999
}

/// The mirrors of a file according to the `Link` fields of its response (RFC 6249).
package struct MirrorLinks: Sendable, Hashable {
    /// The copies of the file (`rel=duplicate`), from best to worst.
    package let mirrors: [DownloadMirror]
    /// The Metalink documents that describe the file (`rel=describedby; type="application/metalink4+xml"`), from best
    /// to worst.
    package let metalinks: [URL]

    /// The maximum number of mirrors, and of Metalink documents. Those with the best priorities are kept.
    package static let limit = 64

    /// Parses the fields of a response. Relative references are resolved against its URL (RFC 8288, section 3.1). Links
    /// that are malformed, are neither http nor https, or describe a different resource (`anchor`) are skipped.
    ///
    /// The links are hints, and may be wrong: use the bytes of a mirror only if a checksum confirms them (RFC 6249,
    /// section 6).
    package init(_ head: ResponseHead) {
        self.init(head.values(of: "Link"), url: head.url)
    }

    init(_ lines: [String], url: URL) {
        var (duplicates, descriptions): ([DownloadMirror], [DownloadMirror]) = ([], [])
        for link in lines.flatMap({ LinkField.links(in: $0) }) where link["anchor"] == nil {
            let isDuplicate = link.hasRelation("duplicate")
            let isDescription = link.hasRelation("describedby") && MediaType.of(link["type"], is: Metalink.mediaType)
            guard isDuplicate || isDescription,
                let mirror = DownloadMirror(
                    link.target, relativeTo: url, priority: link["pri"], location: link["geo"])
            else { continue }
            if isDuplicate { duplicates.append(mirror) }
            if isDescription { descriptions.append(mirror) }
        }
        mirrors = Array(DownloadMirror.sorted(duplicates).prefix(Self.limit))
        metalinks = DownloadMirror.sorted(descriptions).prefix(Self.limit).map(\.url)
    }
}

/// A link of a `Link` field (RFC 8288, section 3): `<target>; name=value; name="value"`.
struct LinkField {
    /// The URI reference between the angle brackets.
    let target: String
    /// The parameters, with lowercase names and unquoted values; the value is empty if missing.
    let parameters: [(name: String, value: String)]

    /// The value of a parameter; the first one if its name is repeated (section 3.3).
    subscript(name: String) -> String? { parameters.first { $0.name == name }?.value }

    /// Returns whether the space-separated relation types (section 2.1) contain `type`, given in lowercase.
    func hasRelation(_ type: String) -> Bool {
        guard let types = self["rel"] else { return false }
        return types.utf8.split(separator: UInt8(ascii: " ")).contains { ASCII.equalIgnoringCase($0, type.utf8) }
    }

    /// Parses the links of a line. Invalid text is skipped up to the next comma (section 3 and appendix B.2).
    static func links(in line: String) -> [LinkField] {
        var scanner = LinkScanner(line)
        var links: [LinkField] = []
        while let link = scanner.next() { links.append(link) }
        return links
    }
}

/// A scanner that reads links one by one.
private struct LinkScanner {
    private var rest: ArraySlice<UInt8>

    init(_ line: String) { rest = Array(line.utf8)[...] }

    mutating func next() -> LinkField? {
        while !rest.isEmpty {
            rest = rest.drop { HTTPSyntax.isOptionalWhitespace($0) || $0 == comma }
            guard rest.first == UInt8(ascii: "<"), let end = rest.firstIndex(of: UInt8(ascii: ">")) else {
                skipLink()
                continue
            }
            let target = ASCII.trimmed(rest[rest.startIndex..<end].dropFirst())
            rest = rest[(end + 1)...]
            return LinkField(target: String(decoding: target, as: UTF8.self), parameters: parameters())
        }
        return nil
    }

    /// Reads the parameters up to the end of the link.
    private mutating func parameters() -> [(name: String, value: String)] {
        var parameters: [(name: String, value: String)] = []
        while true {
            skipSpaces()
            guard rest.first == semicolon else { break }
            rest = rest.dropFirst()
            skipSpaces()
            let name = rest.prefix(while: HTTPSyntax.isTokenByte)
            rest = rest[name.endIndex...]
            skipSpaces()
            var value: [UInt8] = []
            if rest.first == UInt8(ascii: "=") {
                rest = rest.dropFirst()
                skipSpaces()
                value = self.value()
            }
            guard !name.isEmpty else { continue }
            parameters.append(
                (
                    String(decoding: name.map(ASCII.lowercased), as: UTF8.self), String(decoding: value, as: UTF8.self)
                ))
        }
        skipLink()
        return parameters
    }

    private mutating func value() -> [UInt8] {
        guard rest.first == UInt8(ascii: "\"") else {
            let value = rest.prefix { $0 != comma && $0 != semicolon && !HTTPSyntax.isOptionalWhitespace($0) }
            rest = rest[value.endIndex...]
            return Array(value)
        }
        return HTTPSyntax.quotedString(&rest).text
    }

    /// Skips to the next comma outside quoted strings.
    private mutating func skipLink() {
        rest = rest[(HTTPSyntax.firstSeparator(",", in: rest) ?? rest.endIndex)...]
    }

    private mutating func skipSpaces() { rest = rest.drop(while: HTTPSyntax.isOptionalWhitespace) }

    private let comma = UInt8(ascii: ",")
    private let semicolon = UInt8(ascii: ";")
}
