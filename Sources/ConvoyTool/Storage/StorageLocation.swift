import ConvoyObjectStorage
import Foundation

/// An object, or a prefix of keys: `s3://BUCKET/KEY`.
struct StorageLocation: Sendable, Hashable {
    let bucket: String
    /// The key or prefix, as given: percent signs have no special meaning. Empty for the bucket itself.
    var key: String

    private static let scheme = "s3://"

    /// Returns whether the text names an object rather than a file.
    static func isLocation(_ text: String) -> Bool { text.lowercased().hasPrefix(scheme) }

    init(_ text: String, _ options: Options) throws(ToolError) {
        let shown = Printable.line(Shown.url(text))
        guard Self.isLocation(text) else { throw options.usage("'\(shown)' is not of the form s3://BUCKET/KEY") }
        let words = text.dropFirst(Self.scheme.count).split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        bucket = words.first.map(String.init) ?? ""
        key = words.count > 1 ? String(words[1]) : ""
        guard !bucket.isEmpty else { throw options.usage("'\(shown)' has no bucket") }
    }

    init(bucket: String, key: String) {
        self.bucket = bucket
        self.key = key
    }

    /// Whether the location names several objects.
    var isPrefix: Bool { key.isEmpty || key.hasSuffix("/") }
    var text: String { "\(Self.scheme)\(bucket)/\(key)" }
    /// The last part of the key.
    var name: String { key.split(separator: "/").last.map(String.init) ?? "" }

    func appending(_ path: String) -> StorageLocation { StorageLocation(bucket: bucket, key: key + path) }
}
