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

    // MARK: At once

    /// Downloads into a file, and returns the finished operation.
    ///
    /// This is ``makeDownload(_:to:parameters:headers:)``, begun at once: a file that is there is an error, before anything is
    /// sent, unless `existing` says otherwise; and what a download has left that was interrupted, in this process or another,
    /// is continued.
    ///
    /// - Parameters:
    ///   - url: absolute, or relative to `baseURL`.
    ///   - file: where the file is to be.
    ///   - existing: what happens where a file has the name already.
    ///   - parameters: become the query.
    ///   - headers: win over the serializer's; nil takes one of those away.
    ///   - timeout: how long it may take.
    ///   - progress: called as bytes come.
    /// - Throws: ``DownloadError``; `URLError`, which is `.cannotWriteToFile` and names the file where it cannot be written;
    ///   the error of a status that is not acceptable.
    @discardableResult
    public nonisolated(nonsending) func download(
        _ url: some URLConvertible, to file: URL, existing: ExistingFilePolicy = .fail, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Report? = nil
    ) async throws -> DownloadOperation {
        let download = try newDownload(url, parameters, headers, timeout, to: file, existing)
        return try await finish(download.reporting(to: progress), as: .download)
    }

    /// Downloads into a file, in the form with handlers. See the async form.
    @discardableResult
    public func download(
        _ url: some URLConvertible, to file: URL, existing: ExistingFilePolicy = .fail, parameters: [String: Any?]? = nil,
        headers: [String: String?] = [:], timeout: RequestTimeout? = nil, progress: TransferProgress.Handler? = nil,
        success: Success?, failure: Failure? = nil
    ) -> Request {
        begin(.download, success, failure) {
            try newDownload(url, parameters, headers, timeout, to: file, existing).reporting(to: progress)
        }
    }

    private func newDownload(
        _ url: some URLConvertible, _ parameters: [String: Any?]?, _ headers: [String: String?], _ timeout: RequestTimeout?,
        to file: URL, _ existing: ExistingFilePolicy
    ) throws -> DownloadOperation {
        guard file.isFileURL else {
            throw URLError(.badURL, url: file, "A download goes into a file, and this is the URL of none.")
        }
        let download = try newDownload(url, parameters, headers, timeout)
        (download.destination, download.existingFilePolicy) = (file, existing)
        return download
    }

    private func makeDownload(
        _ url: some URLConvertible, _ parameters: [String: Any?]?, _ headers: [String: String?]
    ) throws -> DownloadOperation {
        let download = try newDownload(url, parameters, headers, nil)
        adopt(download, as: .download)
        return download
    }

    private func newDownload(
        _ url: some URLConvertible, _ parameters: [String: Any?]?, _ headers: [String: String?], _ timeout: RequestTimeout?
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
