import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Uploads with a manager's settings.
extension HTTPManager {
    /// Creates an upload of a file, with the manager's settings. The upload is not enqueued.
    ///
    /// ```swift
    /// let upload = try manager.makeUpload(of: film, to: "files/")
    /// upload.retryPolicy = RetryPolicy()
    /// manager.enqueue(upload)
    /// ```
    ///
    /// - Parameters:
    ///   - file: The file.
    ///   - url: The URL that creates uploads or, without a protocol, the destination of the file;
    ///     absolute, or relative to `baseURL`.
    ///   - headers: Fields that override the serializer's; nil removes a field.
    /// - Throws: `URLError.badURL`, or the request serializer's error.
    public func makeUpload(
        of file: URL, to url: some URLConvertible, headers: [String: String?] = [:]
    ) throws -> UploadOperation {
        // A GET has no body, and the protocol determines the method.
        let template = try operationManager.makeOperation(.get, url, headers: headers)
        let upload = UploadOperation(request: template.request, file: file)
        operationManager.adopt(upload)
        upload.responseSerializer = HTTPResponseSerializer(statusesOf: responseSerializer)
        adopt(upload, as: .upload)
        return upload
    }
}
