import ConvoySupport
import Foundation
import FoundationNetworking

/// The properties of a stored object, without its contents.
public struct StoredObject: Sendable, Hashable {
    /// The key, without the storage's prefix.
    public let key: String
    /// The size in bytes; nil if the server did not send it.
    public internal(set) var size: Int64?
    /// The entity tag, with its quotation marks; nil if the server did not send it.
    public internal(set) var entityTag: String?
    /// The time at which the object was stored; nil if the server did not send it.
    public internal(set) var lastModified: Date?
    /// The media type; nil in listings and after a `put`.
    public internal(set) var contentType: String?
    /// The user metadata (`x-amz-meta-`), by lowercase names; empty in listings and after a `put`.
    public internal(set) var metadata: [String: String] = [:]
    /// The checksums of the complete object, strongest first; empty in listings, after a `put`, and if the server did not
    /// send them.
    public internal(set) var checksums: [ObjectChecksum] = []
    /// The version, if the bucket is versioned; otherwise nil.
    public internal(set) var versionID: String?

    init(key: String) { self.key = key }

    /// Reads the properties from the fields of a response.
    init(_ response: HTTPURLResponse, key: String) {
        self.key = key
        size = response.value(forHTTPHeaderField: "Content-Length").flatMap { Int64($0) }
        entityTag = response.value(forHTTPHeaderField: "ETag")
        lastModified = response.value(forHTTPHeaderField: "Last-Modified").flatMap { HTTPDate.date($0) }
        contentType = response.value(forHTTPHeaderField: "Content-Type")
        checksums = ObjectChecksum.all(in: response)
        versionID = response.value(forHTTPHeaderField: "x-amz-version-id")
        for case (let name as String, let value as String) in response.allHeaderFields {
            let name = name.lowercased()
            if name.hasPrefix("x-amz-meta-") { metadata[String(name.dropFirst(11))] = value }
        }
    }

    /// The entity tag without quotation marks.
    package var plainEntityTag: String? { entityTag.map(Self.plain) }

    /// Returns an entity tag without quotation marks, which some servers and users omit.
    package static func plain(_ tag: String) -> String { tag.trimmingCharacters(in: CharacterSet(charactersIn: "\"")) }
}
