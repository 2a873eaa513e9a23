import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Downloads with a manager's settings.
extension HTTPManager {
    /// A download into a file, with the manager's settings, and a GET that its request serializer makes. Not enqueued.
    ///
    /// ```swift
    /// let download = try manager.makeDownload("archive.zip", to: file)
    /// download.segmentCount = 4
    /// manager.enqueue(download)
    /// ```
    ///
    /// - Parameters:
    ///   - url: absolute, or relative to `baseURL`.
    ///   - destination: the file; see ``DownloadOperation/existingFilePolicy`` for one that is there.
    ///   - parameters: become the query.
    ///   - headers: win over the serializer's; nil takes one of those away.
    /// - Throws: `URLError.badURL`, or the request serializer's error.
    public func makeDownload(
        _ url: some URLConvertible, to destination: URL, parameters: [String: Any?]? = nil, headers: [String: String?] = [:]
    ) throws -> DownloadOperation {
        let download = try makeDownload(url, parameters, headers)
        download.destination = destination
        return download
    }

    /// A download into a directory, under the name that the server says; see
    /// ``DownloadOperation/usesServerFileName``. The rest is as with a file.
    public func makeDownload(
        _ url: some URLConvertible, into directory: URL, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:]
    ) throws -> DownloadOperation {
        let download = try makeDownload(url, parameters, headers)
        download.directory = directory
        return download
    }

    private func makeDownload(
        _ url: some URLConvertible, _ parameters: [String: Any?]?, _ headers: [String: String?]
    ) throws -> DownloadOperation {
        let template = try operationManager.makeOperation(.get, url, parameters: parameters, headers: headers)
        let download = DownloadOperation(request: template.request)
        operationManager.adopt(download)
        download.responseSerializer = HTTPResponseSerializer(statusesOf: responseSerializer)
        adopt(download, as: .download)
        return download
    }
}
