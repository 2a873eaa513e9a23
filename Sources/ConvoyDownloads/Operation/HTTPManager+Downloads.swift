import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import Foundation
import FoundationNetworking

/// Downloads with a manager's settings.
extension HTTPManager {
    /// Creates a download to a file, with the manager's settings and a GET request from its request serializer. The
    /// download is not enqueued.
    ///
    /// ```swift
    /// let download = try manager.makeDownload("archive.zip", to: file)
    /// download.segmentCount = 4
    /// manager.enqueue(download)
    /// ```
    ///
    /// - Parameters:
    ///   - url: The URL, absolute or relative to `baseURL`.
    ///   - destination: The file; see ``DownloadOperation/existingFilePolicy`` if it exists.
    ///   - parameters: The query parameters.
    ///   - headers: Fields that override the serializer's; nil removes a field.
    /// - Throws: `URLError.badURL`, or the request serializer's error.
    public func makeDownload(
        _ url: some URLConvertible, to destination: URL, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:]
    ) throws -> DownloadOperation {
        let download = try makeDownload(url, parameters, headers)
        download.destination = destination
        return download
    }

    /// Creates a download to a directory, under the name suggested by the server; see
    /// ``DownloadOperation/usesServerFileName``. Otherwise, this method behaves like the one for a download to a file.
    public func makeDownload(
        _ url: some URLConvertible, into directory: URL, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:]
    ) throws -> DownloadOperation {
        let download = try makeDownload(url, parameters, headers)
        download.directory = directory
        return download
    }

    // MARK: Starting immediately

    /// Downloads a file, and returns the finished operation.
    ///
    /// This method immediately starts a download created by ``makeDownload(_:to:parameters:headers:)``. If the
    /// destination exists, the download fails before sending a request unless `existing` specifies otherwise. An
    /// interrupted download, by this process or another, is resumed.
    ///
    /// - Parameters:
    ///   - url: The URL, absolute or relative to `baseURL`.
    ///   - file: The destination.
    ///   - existing: The behaviour if the destination exists.
    ///   - parameters: The query parameters.
    ///   - headers: Fields that override the serializer's; nil removes a field.
    ///   - timeout: The time limit.
    ///   - progress: A closure called as bytes arrive.
    /// - Throws: ``DownloadError``; a `URLError`, which is `.cannotWriteToFile` and names the file if it cannot be
    ///   written; or the error for an unacceptable status.
    @discardableResult
    public nonisolated(nonsending) func download(
        _ url: some URLConvertible, to file: URL, existing: ExistingFilePolicy = .fail, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> DownloadOperation {
        let download = try newDownload(url, parameters, headers, timeout, to: file, existing)
        return try await finish(download.reporting(to: progress), as: .download)
    }

    /// Downloads a file and calls handlers. Otherwise, this method behaves like the async version.
    @discardableResult
    public func download(
        _ url: some URLConvertible, to file: URL, existing: ExistingFilePolicy = .fail, parameters: RequestParameters? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        begin(.download, success, failure) {
            try newDownload(url, parameters, headers, timeout, to: file, existing).reporting(to: progress)
        }
    }

    private func newDownload(
        _ url: some URLConvertible, _ parameters: RequestParameters?, _ headers: [String: String?],
        _ timeout: RequestTimeout?,
        to file: URL, _ existing: ExistingFilePolicy
    ) throws -> DownloadOperation {
        guard file.isFileURL else {
            throw URLError(.badURL, url: file, "The destination of a download must be a file URL.")
        }
        let download = try newDownload(url, parameters, headers, timeout)
        download.destination = file
        download.existingFilePolicy = existing
        return download
    }

    private func makeDownload(
        _ url: some URLConvertible, _ parameters: RequestParameters?, _ headers: [String: String?]
    ) throws -> DownloadOperation {
        let download = try newDownload(url, parameters, headers, nil)
        adopt(download, as: .download)
        return download
    }

    private func newDownload(
        _ url: some URLConvertible, _ parameters: RequestParameters?, _ headers: [String: String?],
        _ timeout: RequestTimeout?
    ) throws -> DownloadOperation {
        let template = try operationManager.makeOperation(.get, url, parameters: parameters, headers: headers)
        let download = DownloadOperation(request: template.request)
        operationManager.adopt(download)
        download.responseSerializer = HTTPResponseSerializer(statusesOf: responseSerializer)
        if let idle = timeout?.idle { download.idleTimeout = idle }
        if let total = timeout?.total { download.totalTimeout = total }
        return download
    }
}
