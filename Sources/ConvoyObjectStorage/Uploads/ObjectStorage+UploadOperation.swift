import ConvoyOperations
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// Uploads of files as operations.
extension ObjectStorage {
    /// An upload of a file in parts as an operation, with the states, the queue, the progress and the journal of an
    /// `UploadOperation`: paused, failed or killed, it goes on with the parts that the storage lacks. Not enqueued.
    ///
    /// ```swift
    /// let upload = try storage.makeUpload(of: film, key: "films/film.mkv")
    /// manager.enqueue([upload])
    /// ```
    ///
    /// The requests are the storage's own, with its credentials, its rates and its retries; those of the operation do not
    /// count. `responseObject` is a ``StoredObject``. A file that has changed since the upload was begun is an error before a
    /// byte is sent. An upload that the storage does not have any more begins anew only with
    /// `UploadResumption.resumeOrRestart`.
    ///
    /// - Parameters:
    ///   - file: the file's URL.
    ///   - key: as of ``put(_:key:contentType:metadata:)``.
    ///   - contentType: the media type; by default, that of the file's extension.
    ///   - metadata: as of ``put(_:key:contentType:metadata:)``.
    /// - Throws: an ``ObjectStorageError`` for a key that cannot be one.
    public func makeUpload(
        of file: URL, key: String, contentType: String? = nil, metadata: [String: String] = [:]
    ) throws -> UploadOperation {
        // Its requests are the storage's; the URL tells the upload's journal from those of other objects.
        let address = operation(try call("PUT", key)).request.url ?? configuration.endpoint
        let upload = UploadOperation(request: URLRequest(url: address), file: file)
        upload.adapter = StorageUploadAdapter(
            storage: self, key: key, contentType: contentType, metadata: metadata,
            restarts: { [weak upload] in upload?.resumption == .resumeOrRestart })
        return upload
    }
}

/// Carries an `UploadOperation` to a storage.
private struct StorageUploadAdapter: UploadAdapter {
    let storage: ObjectStorage
    let key: String
    let contentType: String?
    let metadata: [String: String]
    let restarts: @Sendable () -> Bool

    func send(_ file: URL, _ context: UploadAdapterContext) async throws -> any Sendable {
        // What a journal has is believed only if it is of this key; the storage itself compares the file.
        let stored = context.stored.flatMap { try? JSONDecoder().decode(MultipartUpload.self, from: $0) }
        if let stored, stored.key == key {
            do {
                return try await go(on: stored, context)
            } catch let error as ObjectStorageError where error.code == .noSuchUpload && restarts() {
            }
        }
        let begun = try await storage.beginUpload(of: file, key: key, contentType: contentType, metadata: metadata)
        // Its parts are asked of the storage, and need no place in a journal.
        try context.store(try JSONEncoder().encode(begun))
        return try await go(on: begun, context)
    }

    private func go(on upload: MultipartUpload, _ context: UploadAdapterContext) async throws -> any Sendable {
        context.report(upload.sentSize, upload.source.size)
        let object = try await storage.resume(upload) { context.report($0.sentSize, upload.source.size) }
        context.report(upload.source.size, upload.source.size)
        return object
    }
}
