import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import ConvoySupport
import ConvoyUploads
import Foundation
import FoundationNetworking

/// Creates tasks for requests. All tasks are suspended; `resume()` starts them.
///
/// Handlers run on `completionQueue`, or on the main queue if that is nil. `progress` is called after bytes have been
/// transferred, but no more often than the queue can handle. If a request cannot be created, the error is reported like
/// any other: after the task is resumed, through its handler.
extension URLSessionManager {
    /// Called once when a task has ended, with the response, if one was received; the object created by the response
    /// serializer; and the error, if the task failed. A response with an unacceptable status has both an object and an
    /// error.
    public typealias CompletionHandler =
        @Sendable (_ response: HTTPURLResponse?, _ responseObject: Any?, _ error: (any Error)?) -> Void

    /// Called once when a download has ended, with the response, the URL of the file, and the error, if the download
    /// failed.
    public typealias DownloadCompletionHandler =
        @Sendable (_ response: HTTPURLResponse?, _ file: URL?, _ error: (any Error)?) -> Void

    /// Returns the destination of a downloaded file, given its current URL and the response; nil leaves the file in
    /// place.
    public typealias Destination = @Sendable (_ temporaryFile: URL, _ response: HTTPURLResponse?) -> URL?

    /// Creates a task whose response is kept in memory.
    public final func dataTask(
        with request: URLRequest, uploadProgress: TransferProgress.Handler? = nil,
        downloadProgress: TransferProgress.Handler? = nil, completionHandler: CompletionHandler?
    ) -> SessionDataTask {
        task(.data, operationManager.makeOperation(request: request), uploadProgress, downloadProgress, completionHandler)
    }

    /// Creates a task that sends a file. The file is read while it is sent, and its length must not change. The file
    /// can be sent again after a redirect. A GET becomes a POST.
    public final func uploadTask(
        with request: URLRequest, fromFile file: URL, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { try Self.upload(request, .file(file)) }
    }

    /// Creates a task that sends data.
    public final func uploadTask(
        with request: URLRequest, from data: Data, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { try Self.upload(request, .data(data, contentType: MIMEType.unknown)) }
    }

    /// Creates a task that sends the `httpBodyStream` of its request. The stream can be sent only once, unless it is a
    /// `ReplayableBodyStream`, or ``taskNeedNewBodyStreamHandler`` provides another stream.
    public final func uploadTask(
        withStreamedRequest request: URLRequest, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { request }
    }

    /// Creates a task that sends a file with an `UploadOperation`, which resumes where the server left off after a
    /// pause, a retry, or the end of the process. Its settings can be changed until the task is resumed.
    ///
    /// - Parameters:
    ///   - request: A request without a body. Its URL is the one at which uploads are created.
    ///   - file: The file. Its journal is stored next to it.
    ///   - uploadProtocol: tus, the IETF draft, or the protocol that the server announces.
    ///   - progress: Called with the number of bytes that the server has confirmed.
    ///   - completionHandler: Called once, at the end.
    public final func uploadTask(
        with request: URLRequest, fromFile file: URL, resumableBy uploadProtocol: UploadProtocol,
        progress: TransferProgress.Handler? = nil, completionHandler: CompletionHandler? = nil
    ) -> SessionUploadTask {
        let upload = UploadOperation(request: request, file: file)
        upload.uploadProtocol = uploadProtocol
        return uploadTask(upload, progress, completionHandler)
    }

    /// Creates a task that resumes a stopped upload, possibly in another process.
    ///
    /// - Parameters:
    ///   - resumeData: The ``SessionUploadTask/resumeData`` of the stopped task.
    ///   - request: A request for the same URL, with the header fields, which resume data does not contain.
    ///   - progress: Called with the number of bytes that the server has confirmed.
    ///   - completionHandler: Called once, at the end. If the file has changed, it receives an `UploadError`.
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

    /// Creates a task that downloads to a file with a GET and the settings of `DownloadOperation`.
    ///
    /// - Parameters:
    ///   - request: A GET without a body and without a range.
    ///   - progress: Called while bytes are received.
    ///   - destination: Returns the destination of the complete file. Called on ``handlerQueue``. If the destination
    ///     exists, it is not replaced and the task fails. nil leaves the file in place.
    ///   - completionHandler: Called with the URL of the file.
    public final func downloadTask(
        with request: URLRequest, progress: TransferProgress.Handler? = nil, destination: Destination? = nil,
        completionHandler: DownloadCompletionHandler?
    ) -> SessionDownloadTask {
        downloadTask(request, resuming: nil, progress, destination, completionHandler)
    }

    /// Creates a task that resumes a stopped download of this manager, or of another manager with the same
    /// `temporaryDirectory`, possibly in another process. If the file on the server has changed, or the partial file no
    /// longer exists, the download starts over.
    ///
    /// - Parameters:
    ///   - resumeData: The resume data of the stopped task.
    ///   - request: A request for the same URL with header fields, which resume data does not contain; nil for a plain
    ///     GET. The signature in its query may differ.
    ///   - progress: Called while bytes are received.
    ///   - destination: Returns the destination of the complete file; see
    ///     ``downloadTask(with:progress:destination:completionHandler:)``.
    ///   - completionHandler: Called with the URL of the file.
    /// - Throws: `ResumeDataError.otherURL` if the request is for another resource.
    public final func downloadTask(
        with resumeData: ResumeData, request: URLRequest? = nil, progress: TransferProgress.Handler? = nil,
        destination: Destination? = nil, completionHandler: DownloadCompletionHandler?
    ) throws(ResumeDataError) -> SessionDownloadTask {
        if let request, request.url.map(resumeData.isOf) != true { throw .otherURL }
        return downloadTask(
            request ?? URLRequest(url: resumeData.url), resuming: resumeData.name, progress, destination,
            completionHandler)
    }

    /// Creates a task that resumes a stopped download from encoded resume data, which need not be trusted.
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

    /// Returns the resume data of the largest partial file that an earlier download of a resource has left in
    /// `temporaryDirectory`, for example because its process was killed. Returns nil if no such file exists. Files that
    /// a download in any process is writing are ignored. Incomplete files are removed after a week, or if they exceed 4
    /// GiB in total.
    ///
    /// - Parameter url: The URL of the request. The signature in its query may differ.
    public final func resumeData(ofInterruptedDownload url: URL) async -> ResumeData? {
        let files = currentSession.files
        return await withCheckedContinuation { continuation in
            BlockingWorkers.shared.perform { continuation.resume(returning: files.resumeData(for: url)) }
        }
    }

    // MARK: Without handlers

    /// Creates a task whose response is kept in memory, without a handler.
    public final func dataTask(with request: URLRequest) -> SessionDataTask {
        dataTask(with: request, completionHandler: nil)
    }

    /// Creates a task that sends a file, without a handler.
    public final func uploadTask(with request: URLRequest, fromFile file: URL) -> SessionUploadTask {
        uploadTask(with: request, fromFile: file, completionHandler: nil)
    }

    /// Creates a task that sends data, without a handler.
    public final func uploadTask(with request: URLRequest, from data: Data) -> SessionUploadTask {
        uploadTask(with: request, from: data, completionHandler: nil)
    }

    /// Creates a task that sends the stream of its request, without a handler.
    public final func uploadTask(withStreamedRequest request: URLRequest) -> SessionUploadTask {
        uploadTask(withStreamedRequest: request, completionHandler: nil)
    }

    /// Creates a task that downloads to a file, without a handler.
    public final func downloadTask(with request: URLRequest) -> SessionDownloadTask {
        downloadTask(with: request, completionHandler: nil)
    }

    /// Creates a task that resumes a stopped download, without a handler.
    public final func downloadTask(with resumeData: ResumeData) -> SessionDownloadTask {
        downloadTask(URLRequest(url: resumeData.url), resuming: resumeData.name, nil, nil, nil)
    }

    /// Creates a task that resumes a stopped download from encoded resume data, which need not be trusted.
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

    /// Returns a request with a body and the fields that describe it.
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
