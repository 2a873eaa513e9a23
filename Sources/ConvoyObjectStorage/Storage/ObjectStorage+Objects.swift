import ConvoyOperations
import ConvoySerialization
import Foundation

/// Storing, fetching and deleting objects. Cancelling the task cancels the request.
///
/// All methods throw an ``ObjectStorageError``, or a `URLError` if the transfer fails.
extension ObjectStorage {
    /// Stores data under a key, replacing an existing object.
    ///
    /// - Parameters:
    ///   - data: The contents of the object.
    ///   - key: The key, with the prefix up to 1,024 bytes of UTF-8, without a segment `.` or `..`.
    ///   - contentType: The media type; `application/octet-stream` by default.
    ///   - metadata: Values in ASCII, by names that are tokens, without `x-amz-meta-`.
    ///   - condition: The condition; nil, the default, to store unconditionally.
    /// - Returns: The object, with its entity tag. The checksum and the tag have been verified against the data.
    @discardableResult
    public func put(
        _ data: Data, key: String, contentType: String? = nil, metadata: [String: String] = [:],
        condition: StoreCondition? = nil
    ) async throws -> StoredObject {
        try await stored(try putCall(.data(data), key, contentType, metadata, condition))
    }

    /// Returns the contents of an object, verified against the server's checksums (SHA-256, SHA-1, CRC-64/NVME, CRC-32C,
    /// CRC-32) if it has stored any. The contents are kept in memory: for large objects, see
    /// ``presignedURL(for:method:expiresIn:)``.
    public func get(_ key: String) async throws -> Data {
        guard let data = try await run(try getCall(key)) as? Data else { throw unexpected(key) }
        return data
    }

    /// Returns an object without its contents.
    public func head(_ key: String) async throws -> StoredObject {
        var call = try call("HEAD", key, answer: .head)
        call.fields = [("x-amz-checksum-mode", "ENABLED")]
        guard let object = try await run(call) as? StoredObject else {
            throw unexpected(key)
        }
        return object
    }

    /// Deletes an object. Succeeds even if the object does not exist.
    public func delete(_ key: String) async throws { _ = try await run(try call("DELETE", key)) }

    /// Copies an object of at most 5 GiB within the bucket, with its metadata, on the server.
    ///
    /// - Parameters:
    ///   - key: The key of the existing object.
    ///   - newKey: The key of the copy.
    @discardableResult
    public func copy(_ key: String, to newKey: String) async throws -> StoredObject {
        var call = try call("PUT", newKey, answer: .document(with: "ETag"))
        let source = SignatureV4.encoded("/\(configuration.bucket)/\(try whole(key))", keepsSlashes: true)
        call.fields = [("x-amz-copy-source", source)]
        guard let document = try await run(call) as? StorageXML else { throw unexpected(newKey) }
        var object = StoredObject(key: newKey)
        object.entityTag = document["ETag"]
        object.lastModified = document["LastModified"].flatMap(StorageDate.parse)
        return object
    }

    func stored(_ call: StorageCall) async throws -> StoredObject {
        guard let object = try await run(call) as? StoredObject else { throw unexpected(call.name) }
        return object
    }

    func unexpected(_ key: String?) -> ObjectStorageError {
        ObjectStorageError(.malformedAnswer, "The response contains no result.")
            .about(bucket: configuration.bucket, key: key)
    }
}
