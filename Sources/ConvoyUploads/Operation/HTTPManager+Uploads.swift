import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Uploads with a manager's settings.
extension HTTPManager {
    /// An upload of a file, with the manager's settings. Not enqueued.
    ///
    /// ```swift
    /// let upload = try manager.makeUpload(of: film, to: "files/")
    /// upload.retryPolicy = RetryPolicy()
    /// manager.enqueue(upload)
    /// ```
    ///
    /// - Parameters:
    ///   - file: the file.
    ///   - url: where uploads are created, or, without a protocol, where the file is to be: absolute, or relative to `baseURL`.
    ///   - headers: win over the serializer's; nil takes one of those away.
    /// - Throws: `URLError.badURL`, or the request serializer's error.
    public func makeUpload(
        of file: URL, to url: some URLConvertible, headers: [String: String?] = [:]
    ) throws -> UploadOperation {
        // As a GET it has no body, and the protocol chooses the method.
        let template = try operationManager.makeOperation(.get, url, headers: headers)
        let upload = UploadOperation(request: template.request, file: file)
        operationManager.adopt(upload)
        upload.responseSerializer = HTTPResponseSerializer(statusesOf: responseSerializer)
        adopt(upload, as: .upload)
        return upload
    }
}
