import ConvoyOperations
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// Uploading files with operations.
extension ObjectStorage {
    /// Creates an operation that uploads a file, with the states, queue, progress and journal of an `UploadOperation`.
    /// A file larger than ``Configuration/partSize`` is sent in parts: after a pause, a failure or the end of the process,
    /// the upload resumes with the missing parts. The operation is not enqueued.
    ///
    /// ```swift
    /// let upload = try storage.makeUpload(of: film, key: "films/film.mkv")
    /// manager.enqueue([upload])
    /// ```
    ///
    /// The requests use the storage's credentials, rates and retries, not those of the operation. `responseObject` is a
    /// ``StoredObject``. If the file has changed since the upload began, the operation fails before sending a byte. If
    /// the storage no longer has the upload, the operation starts over only with `UploadResumption.resumeOrRestart`. An
    /// upload that starts over because its file has changed first aborts the earlier one.
    ///
    /// - Parameters:
    ///   - file: The URL of the file.
    ///   - key: The key; see ``put(_:key:contentType:metadata:condition:)``.
    ///   - contentType: The media type; by default that of the file's extension.
    ///   - metadata: The metadata; see ``put(_:key:contentType:metadata:condition:)``.
    ///   - condition: The condition; see ``put(fileAt:key:contentType:metadata:condition:)``.
    /// - Throws: An ``ObjectStorageError`` if the key or the condition is invalid.
    public func makeUpload(
        of file: URL, key: String, contentType: String? = nil, metadata: [String: String] = [:],
        condition: StoreCondition? = nil
    ) throws -> UploadOperation {
        _ = try condition?.field(key)
        // The storage sends the requests; this URL only identifies the journal of the object.
        let address = operation(try call("PUT", key)).request.url ?? configuration.endpoint
        let upload = UploadOperation(request: URLRequest(url: address), file: file)
        upload.adapter = StorageUploadAdapter(
            storage: self, key: key, contentType: contentType, metadata: metadata, condition: condition,
            restarts: { [weak upload] in upload?.resumption == .resumeOrRestart })
        return upload
    }
}

/// An adapter that sends an `UploadOperation` to a storage.
private struct StorageUploadAdapter: UploadAdapter {
    let storage: ObjectStorage
    let key: String
    let contentType: String?
    let metadata: [String: String]
    let condition: StoreCondition?
    let restarts: @Sendable () -> Bool
    /// The maximum size of an upload in the journal, in bytes. In an entry of the journal, it is a third larger.
    private static let maximumStoredSize = 20 << 10

    func send(_ file: URL, _ context: UploadAdapterContext) async throws -> any Sendable {
        // Use the journaled upload only if it has the same key; the storage compares the file itself.
        if let stored = upload(context.stored) {
            do {
                return try await go(on: stored, context)
            } catch let error as ObjectStorageError where error.code == .noSuchUpload && restarts() {
            }
        }
        // The server keeps the parts of an upload that was not completed, and may charge for them.
        if let discarded = upload(context.discarded) { try? await storage.abort(discarded) }
        let source = try await BlockingWork.run { try SourceFile(file) }
        guard try source.size > MultipartUpload.partSize(for: source.size, wanted: storage.configuration.partSize) else {
            context.report(0, source.size)
            let object = try await storage.put(
                fileAt: file, key: key, contentType: contentType, metadata: metadata, condition: condition)
            context.report(source.size, source.size)
            return object
        }
        let begun = try await storage.beginUpload(of: file, key: key, contentType: contentType, metadata: metadata)
        try await context.store(try JSONEncoder().encode(begun))
        return try await go(on: begun, context)
    }

    private func upload(_ data: Data?) -> MultipartUpload? {
        let stored = data.flatMap { try? JSONDecoder().decode(MultipartUpload.self, from: $0) }
        return stored?.key == key ? stored : nil
    }

    private func go(on upload: MultipartUpload, _ context: UploadAdapterContext) async throws -> any Sendable {
        context.report(upload.sentSize, upload.source.size)
        let object = try await storage.resume(upload, condition: condition) { upload in
            // The storage lists the parts. The journal also contains them if they are few, because some servers do not list
            // the checksums that show that a part is the one in the file.
            let data = try JSONEncoder().encode(upload)
            if data.count <= Self.maximumStoredSize { try await context.store(data) }
            context.report(upload.sentSize, upload.source.size)
        }
        context.report(upload.source.size, upload.source.size)
        return object
    }
}
