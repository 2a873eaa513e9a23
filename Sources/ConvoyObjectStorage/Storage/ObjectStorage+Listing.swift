import ConvoySerialization
import ConvoySupport
import Foundation

/// A page of a listing.
public struct ObjectListing: Sendable, Hashable {
    /// The objects with size, entity tag and time, sorted by the UTF-8 bytes of their keys.
    public let objects: [StoredObject]
    /// The prefixes of keys up to the delimiter, each representing all objects below it. They exclude the storage's
    /// prefix.
    public let commonPrefixes: [String]
    /// The token for the next page; nil at the end.
    public let continuationToken: String?
}

extension ObjectStorage {
    /// Returns a page of the objects whose keys begin with a prefix.
    ///
    /// - Parameters:
    ///   - prefix: The prefix, following the storage's own prefix.
    ///   - delimiter: A delimiter such as `/`. Keys that contain it after the prefix are combined
    ///     in ``ObjectListing/commonPrefixes``; nil to list all keys.
    ///   - limit: The maximum number of entries on the page, up to 1,000.
    ///   - token: The token from the previous page; nil for the first one.
    public func list(
        prefix: String = "", delimiter: String? = nil, limit: Int = 1000, continuingAfter token: String? = nil
    ) async throws -> ObjectListing {
        var items = [("encoding-type", "url"), ("list-type", "2"), ("max-keys", String(min(max(limit, 1), 1000)))]
        if let token { items.append(("continuation-token", token)) }
        if let delimiter { items.append(("delimiter", delimiter)) }
        items.append(("prefix", configuration.prefix + prefix))
        var call = StorageCall(method: "GET", answer: .document(with: "IsTruncated"))
        call.query = items.map { "\($0.0)=\(SignatureV4.encoded($0.1))" }.joined(separator: "&")
        guard let document = try await run(call) as? StorageXML else { throw unexpected(nil) }
        return try listing(document, after: token)
    }

    /// Returns all pages of a listing, which are fetched on demand.
    public func pages(
        prefix: String = "", delimiter: String? = nil, limit: Int = 1000
    ) -> some AsyncSequence<ObjectListing, any Error> & Sendable {
        ObjectListingPages(storage: self, prefix: prefix, delimiter: delimiter, limit: limit)
    }

    private func listing(_ document: StorageXML, after token: String?) throws -> ObjectListing {
        let isEncoded = document["EncodingType"] == "url"
        func name(_ text: String) throws -> String {
            var bytes = Array(text.utf8)
            if isEncoded {
                // Spaces are encoded as plus signs.
                bytes = PercentEncoding.decoded(bytes.map { $0 == UInt8(ascii: "+") ? 0x20 : $0 }[...])
            }
            let start = configuration.prefix.utf8
            guard bytes.starts(with: start) else { throw unexpected(nil) }
            return String(decoding: bytes.dropFirst(start.count), as: UTF8.self)
        }
        let objects = try document.all("Contents").compactMap { entry -> StoredObject? in
            guard let key = try entry["Key"].map(name) else { throw unexpected(nil) }
            // Skip an object for the prefix itself, such as a folder marker, because its key would be empty.
            guard !key.isEmpty else { return nil }
            var object = StoredObject(key: key)
            object.size = entry["Size"].flatMap { Int64($0) }
            object.entityTag = entry["ETag"]
            object.lastModified = entry["LastModified"].flatMap(StorageDate.parse)
            return object
        }
        let prefixes = try document.all("CommonPrefixes").compactMap { try $0["Prefix"].map(name) }
        var next: String?
        if document["IsTruncated"] == "true" {
            next = document["NextContinuationToken"]
            // Without this check, the listing could be endless.
            guard let next, !next.isEmpty, next != token else { throw unexpected(nil) }
        }
        return ObjectListing(objects: objects, commonPrefixes: prefixes, continuationToken: next)
    }
}

/// The pages of a listing, in order.
struct ObjectListingPages: AsyncSequence, Sendable {
    let storage: ObjectStorage
    let prefix: String
    let delimiter: String?
    let limit: Int

    /// An iterator that fetches the pages one by one.
    struct AsyncIterator: AsyncIteratorProtocol {
        let pages: ObjectListingPages
        var token: String?
        var isOver = false

        /// Returns the next page; nil after the last one.
        mutating func next() async throws -> ObjectListing? {
            guard !isOver else { return nil }
            let page = try await pages.storage.list(
                prefix: pages.prefix, delimiter: pages.delimiter, limit: pages.limit, continuingAfter: token)
            token = page.continuationToken
            isOver = token == nil
            return page
        }
    }

    /// Creates an iterator that starts at the first page.
    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(pages: self) }
}
