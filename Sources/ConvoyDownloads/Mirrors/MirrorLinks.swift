import ConvoySupport
import ConvoyTransport
import Foundation

/// Where a file can also be had, as the `Link` fields of its response say (RFC 6249).
public struct MirrorLinks: Sendable, Hashable {
    /// The copies of the file (`rel=duplicate`), from the best to the worst.
    public let mirrors: [DownloadMirror]
    /// The Metalink documents that describe the file (`rel=describedby; type="application/metalink4+xml"`), from the
    /// best to the worst.
    public let metalinks: [URL]

    /// How many of each are kept. Those with the best priorities are.
    public static let limit = 64

    /// Reads the fields of a response. Relative references are resolved against its URL (RFC 8288, section 3.1). A link
    /// that is malformed, leads elsewhere than to http or https, or is about another resource (`anchor`) is skipped.
    ///
    /// They are hints of a server that may be wrong: the bytes of a mirror are only those of the file if a checksum says
    /// so (RFC 6249, section 6).
    public init(_ head: ResponseHead) {
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
