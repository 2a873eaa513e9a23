import ConvoySupport
import Foundation

/// A URL under which a file can also be had, as a server or a Metalink lists it.
public struct DownloadMirror: Sendable, Hashable {
    /// Where the file is: an http or https URL without user information.
    public let url: URL
    /// From 1, the best, to 999999; nil for none, which is after all others.
    public let priority: Int?
    /// The country of the server (ISO 3166-1), in lower case; nil if it is not told.
    public let location: String?

    /// A mirror that the caller knows.
    ///
    /// - Parameters:
    ///   - url: where the file is.
    ///   - priority: from 1 to 999999; another number is taken for none.
    ///   - location: the country of the server (ISO 3166-1).
    public init(url: URL, priority: Int? = nil, location: String? = nil) {
        self.url = url
        self.priority = priority.flatMap { Self.priorities.contains($0) ? $0 : nil }
        self.location = location
    }

    /// A mirror out of a document; nil for a URL that is invalid or has another scheme than http and https, or user
    /// information, as a document has no business in whom the client says that it is (RFC 9110, section 4.2.4).
    init?(_ reference: String, relativeTo base: URL?, priority: String?, location: String?) {
        guard let url = URLReference.url(reference, relativeTo: base), let address = HTTPAddress(url.absoluteString),
            !address.hasUserInfo
        else { return nil }
        self.init(
            url: url, priority: priority.flatMap { DecimalNumber.parse($0.utf8) }.flatMap { Int(exactly: $0) },
            location: location.flatMap { $0.isEmpty ? nil : String($0.lowercased().prefix(16)) })
    }

    /// The mirrors from the best to the worst, in their own order where they have the same priority, each URL once.
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

    /// RFC 5854, section 4.2.16.1, and RFC 6249, section 3.1.
    private static let priorities = 1...999_999
}
