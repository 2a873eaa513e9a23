import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// Makes tasks from requests. All are suspended; `resume()` starts them.
///
/// Handlers run on `completionQueue`, or on the main queue if that is nil; `progress` runs after bytes have moved, but
/// not more often than the queue can handle. A request that cannot be made fails like a refused one: after the task is
/// resumed, through its handler.
extension URLSessionManager {
    /// Called once when a task has ended: with the response, if one has arrived, the object that the response
    /// serializer has made, and the error, if the task has failed. A response with an unacceptable status has both.
    public typealias CompletionHandler =
        @Sendable (_ response: HTTPURLResponse?, _ responseObject: Any?, _ error: (any Error)?) -> Void

    /// Called once when a download has ended: with the response, the URL of the file, and the error, if it has failed.
    public typealias DownloadCompletionHandler =
        @Sendable (_ response: HTTPURLResponse?, _ file: URL?, _ error: (any Error)?) -> Void

    /// Returns the destination of a downloaded file, given its current URL and the response; nil leaves it there.
    public typealias Destination = @Sendable (_ temporaryFile: URL, _ response: HTTPURLResponse?) -> URL?

    /// Makes a task whose response is kept in memory.
    public final func dataTask(
        with request: URLRequest, uploadProgress: TransferProgress.Handler? = nil,
        downloadProgress: TransferProgress.Handler? = nil, completionHandler: CompletionHandler?
    ) -> SessionDataTask {
        task(.data, operationManager.makeOperation(request: request), uploadProgress, downloadProgress, completionHandler)
    }

    /// Makes a task that sends a file. The file is read while it is sent, must keep its current length, and can be sent
    /// again after a redirect. A GET becomes a POST.
    public final func uploadTask(
        with request: URLRequest, fromFile file: URL, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { try Self.upload(request, .file(file)) }
    }

    /// Makes a task that sends data.
    public final func uploadTask(
        with request: URLRequest, from data: Data, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { try Self.upload(request, .data(data, contentType: MIMEType.unknown)) }
    }

    /// Makes a task that sends the `httpBodyStream` of its request. The stream can be sent once, unless it is a
    /// `ReplayableBodyStream`, or ``taskNeedNewBodyStreamHandler`` provides another.
    public final func uploadTask(
        withStreamedRequest request: URLRequest, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { request }
    }

    /// Makes a task that sends a file by an `UploadOperation`, which goes on where the server has it: after a pause, a retry,
    /// or the end of the process. Its settings can be changed until the task is resumed.
    ///
    /// - Parameters:
    ///   - request: Its URL is where uploads are created; it has no body.
    ///   - file: The file. Its journal is beside it.
    ///   - uploadProtocol: tus, the IETF's draft, or what the server says that it knows.
    ///   - progress: Called with what the server has confirmed.
    ///   - completionHandler: Called once, at the end.
    public final func uploadTask(
        with request: URLRequest, fromFile file: URL, resumableBy uploadProtocol: UploadProtocol,
        progress: TransferProgress.Handler? = nil, completionHandler: CompletionHandler? = nil
    ) -> SessionUploadTask {
        let upload = UploadOperation(request: request, file: file)
        upload.uploadProtocol = uploadProtocol
        return uploadTask(upload, progress, completionHandler)
    }

    /// Makes a task that goes on with an upload that was stopped, also in another process.
    ///
    /// - Parameters:
    ///   - resumeData: What ``SessionUploadTask/resumeData`` of the stopped task was.
    ///   - request: A request for the same URL, with the header fields, which resume data does not contain.
    ///   - progress: Called with what the server has confirmed.
    ///   - completionHandler: Called once, at the end: with an `UploadError` for a file that has changed.
    public final func uploadTask(
        with resumeData: UploadResumeData, request: URLRequest, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler? = nil
    ) -> SessionUploadTask {
        uploadTask(UploadOperation(request: request, resumeData: resumeData), progress, completionHandler)
    }

    private func uploadTask(
        _ upload: UploadOperation, _ progress: TransferProgress.Handler?, _ completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        currentSession.giveSettings(to: upload)
        return task(.upload, upload, progress, nil, completionHandler)
    }

    /// Makes a task that downloads to a file with a GET and the settings of `DownloadOperation`.
    ///
    /// - Parameters:
    ///   - request: A GET without a body and without a range.
    ///   - progress: Called while bytes arrive.
    ///   - destination: Returns the destination of the complete file; called on ``handlerQueue``. An existing file is
    ///     not replaced: the task fails. nil leaves the file where it is.
    ///   - completionHandler: Called with the URL of the file.
    public final func downloadTask(
        with request: URLRequest, progress: TransferProgress.Handler? = nil, destination: Destination? = nil,
        completionHandler: DownloadCompletionHandler?
    ) -> SessionDownloadTask {
        downloadTask(request, resuming: nil, progress, destination, completionHandler)
    }

    /// Makes a task that continues a stopped download, of this manager or another one with the same
    /// `temporaryDirectory`, also in another process. If the file on the server has changed, or the partial file is
    /// gone, it starts over.
    ///
    /// - Parameters:
    ///   - resumeData: The resume data of the stopped task.
    ///   - request: A request for the same URL with header fields, which resume data does not contain; nil for a plain
    ///     GET. The signature in its query may be a new one.
    ///   - progress: Called while bytes arrive.
    ///   - destination: Returns the destination of the complete file; see
    ///     ``downloadTask(with:progress:destination:completionHandler:)``.
    ///   - completionHandler: Called with the URL of the file.
    /// - Throws: `ResumeDataError.otherURL` for a request for another resource.
    public final func downloadTask(
        with resumeData: ResumeData, request: URLRequest? = nil, progress: TransferProgress.Handler? = nil,
        destination: Destination? = nil, completionHandler: DownloadCompletionHandler?
    ) throws(ResumeDataError) -> SessionDownloadTask {
        if let request, request.url.map(resumeData.isOf) != true { throw .otherURL }
        return downloadTask(
            request ?? URLRequest(url: resumeData.url), resuming: resumeData.name, progress, destination,
            completionHandler)
    }

    /// Makes a task that continues a stopped download from encoded resume data, which need not be trusted.
    ///
    /// - Throws: `ResumeDataError`.
    public final func downloadTask(
        withResumeData data: Data, request: URLRequest? = nil, progress: TransferProgress.Handler? = nil,
        destination: Destination? = nil, completionHandler: DownloadCompletionHandler?
    ) throws(ResumeDataError) -> SessionDownloadTask {
        try downloadTask(
            with: ResumeData(data), request: request, progress: progress, destination: destination,
            completionHandler: completionHandler)
    }

    /// The resume data of the largest partial file that an earlier download of a resource has left in
    /// `temporaryDirectory`, for instance one whose process was killed; nil if there is none. A file that a download of
    /// any process is writing is not considered. Unfinished files are removed after a week, or if there are more than
    /// 4 GiB of them.
    ///
    /// - Parameter url: The URL of the request. The signature in its query may be a new one.
    public final func resumeData(ofInterruptedDownload url: URL) async -> ResumeData? {
        let files = currentSession.files
        return await withCheckedContinuation { continuation in
            BlockingWorkers.shared.perform { continuation.resume(returning: files.resumeData(for: url)) }
        }
    }

    // MARK: Without handlers

    /// Makes a task whose response is kept in memory, without a handler.
    public final func dataTask(with request: URLRequest) -> SessionDataTask {
        dataTask(with: request, completionHandler: nil)
    }

    /// Makes a task that sends a file, without a handler.
    public final func uploadTask(with request: URLRequest, fromFile file: URL) -> SessionUploadTask {
        uploadTask(with: request, fromFile: file, completionHandler: nil)
    }

    /// Makes a task that sends data, without a handler.
    public final func uploadTask(with request: URLRequest, from data: Data) -> SessionUploadTask {
        uploadTask(with: request, from: data, completionHandler: nil)
    }

    /// Makes a task that sends the stream of its request, without a handler.
    public final func uploadTask(withStreamedRequest request: URLRequest) -> SessionUploadTask {
        uploadTask(withStreamedRequest: request, completionHandler: nil)
    }

    /// Makes a task that downloads to a file, without a handler.
    public final func downloadTask(with request: URLRequest) -> SessionDownloadTask {
        downloadTask(with: request, completionHandler: nil)
    }

    /// Makes a task that continues a stopped download, without a handler.
    public final func downloadTask(with resumeData: ResumeData) -> SessionDownloadTask {
        downloadTask(URLRequest(url: resumeData.url), resuming: resumeData.name, nil, nil, nil)
    }

    /// Makes a task that continues a stopped download from encoded resume data, which need not be trusted.
    ///
    /// - Throws: `ResumeDataError`.
    public final func downloadTask(withResumeData data: Data) throws(ResumeDataError) -> SessionDownloadTask {
        downloadTask(with: try ResumeData(data))
    }

    // MARK: Making tasks

    private func uploadTask(
        _ progress: TransferProgress.Handler?, _ completionHandler: CompletionHandler?, _ make: () throws -> URLRequest
    ) -> SessionUploadTask {
        let operation = operationManager.makeOperation { operationManager.makeOperation(request: try make()) }
        return task(.upload, operation, progress, nil, completionHandler)
    }

    /// A request with a body and the fields that describe it.
    private static func upload(_ request: URLRequest, _ body: RequestBody) throws -> URLRequest {
        try HTTPRequestSerializer.request(request, sending: body)
    }

    private func task<Task: SessionTask>(
        _ kind: HTTPRequestKind, _ operation: HTTPRequestOperation, _ uploadProgress: TransferProgress.Handler?,
        _ downloadProgress: TransferProgress.Handler?, _ completionHandler: CompletionHandler?
    ) -> Task {
        operation.pause()
        let record = currentSession.adopt(operation, as: kind)
        operation.report(uploadProgress, downloadProgress)
        if let completionHandler {
            operation.setCompletionHandler(
                success: { operation, object in completionHandler(operation.response, object, nil) },
                failure: { operation, error in completionHandler(operation.response, operation.responseObject, error) })
        }
        return record.newTask(of: operation)
    }

    private func downloadTask(
        _ request: URLRequest, resuming name: String?, _ progress: TransferProgress.Handler?, _ destination: Destination?,
        _ completionHandler: DownloadCompletionHandler?
    ) -> SessionDownloadTask {
        let (record, download) = currentSession.makeDownload(request, resuming: name, destination)
        download.report(nil, progress)
        if let completionHandler {
            download.setCompletionHandler(
                success: { operation, object in completionHandler(operation.response, object as? URL, nil) },
                failure: { operation, error in completionHandler(operation.response, nil, error) })
        }
        return record.newTask(of: download)
    }
}
