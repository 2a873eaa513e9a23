import ConvoyOperations
import ConvoySerialization
import Foundation

/// Storing, fetching and deleting objects. Cancelling the task cancels the request.
///
/// All throw an ``ObjectStorageError``, or the error of the transfer, which is a `URLError`.
extension ObjectStorage {
    /// Stores data under a key, and replaces an object that is there.
    ///
    /// - Parameters:
    ///   - data: the bytes of the object.
    ///   - key: up to 1,024 bytes of UTF-8 with the prefix, without a segment that is a dot or two.
    ///   - contentType: the media type; `application/octet-stream` by default.
    ///   - metadata: by names that are tokens, without `x-amz-meta-`; the values are ASCII.
    /// - Returns: the object, with its entity tag. The checksum and the tag were compared with those of the data.
    @discardableResult
    public func put(
        _ data: Data, key: String, contentType: String? = nil, metadata: [String: String] = [:]
    ) async throws -> StoredObject {
        try await stored(try putCall(.data(data), key, contentType, metadata))
    }

    /// The bytes of an object, compared with the server's checksum if it has one. In memory: for large objects, see
    /// ``presignedURL(for:method:expiresIn:)``.
    public func get(_ key: String) async throws -> Data {
        guard let data = try await run(try getCall(key)) as? Data else { throw unexpected(key) }
        return data
    }

    /// An object without its bytes.
    public func head(_ key: String) async throws -> StoredObject {
        guard let object = try await run(try call("HEAD", key, answer: .head)) as? StoredObject else {
            throw unexpected(key)
        }
        return object
    }

    /// Deletes an object. One that is not there is a success.
    public func delete(_ key: String) async throws { _ = try await run(try call("DELETE", key)) }

    /// Copies an object within the bucket, with its metadata, on the server. It has at most 5 GiB.
    ///
    /// - Parameters:
    ///   - key: the key of the object that is there.
    ///   - newKey: the key of the copy.
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
        ObjectStorageError(.malformedAnswer, "The response has no result.")
            .about(bucket: configuration.bucket, key: key)
    }
}
