import ConvoyDownloads
import ConvoyOperations
import ConvoySerialization
import Foundation
import FoundationNetworking

/// The tasks that a manager makes of requests. All are suspended; `resume()` begins them.
///
/// The handlers run on `completionQueue`, or on the main queue where there is none; `progress` each time when bytes have
/// moved and that queue has time for it. A request that cannot be made fails as one that the network refuses: when the task
/// is resumed, through its handler.
extension URLSessionManager {
    /// Called once when a task has ended: with the response, if one has come, what the response serializer has made of it,
    /// and the error, if it has failed. A response with an unacceptable status has both.
    public typealias CompletionHandler =
        @Sendable (_ response: HTTPURLResponse?, _ responseObject: Any?, _ error: (any Error)?) -> Void

    /// Called once when a download has ended: with the response, the place of the file, and the error, if it has failed.
    public typealias DownloadCompletionHandler =
        @Sendable (_ response: HTTPURLResponse?, _ file: URL?, _ error: (any Error)?) -> Void

    /// Says where the file of a download is to be: gets where it is, and the response. nil leaves it there.
    public typealias Destination = @Sendable (_ temporaryFile: URL, _ response: HTTPURLResponse?) -> URL?

    /// A task whose response is kept in memory.
    public final func dataTask(
        with request: URLRequest, uploadProgress: TransferProgress.Handler? = nil,
        downloadProgress: TransferProgress.Handler? = nil, completionHandler: CompletionHandler?
    ) -> SessionDataTask {
        task(.data, operationManager.makeOperation(request: request), uploadProgress, downloadProgress, completionHandler)
    }

    /// A task that sends a file. It is read while it is sent, must have the length that it has now, and can be sent again
    /// after a redirect. A request without a method of its own, or with GET, becomes a POST.
    public final func uploadTask(
        with request: URLRequest, fromFile file: URL, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { try Self.upload(request, .file(file)) }
    }

    /// A task that sends data.
    public final func uploadTask(
        with request: URLRequest, from data: Data, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { try Self.upload(request, .data(data, contentType: MIMEType.unknown)) }
    }

    /// A task that sends the stream of its request, `httpBodyStream`. It can be sent once, unless it is a
    /// `ReplayableBodyStream`, or ``taskNeedNewBodyStreamHandler`` has another.
    public final func uploadTask(
        withStreamedRequest request: URLRequest, progress: TransferProgress.Handler? = nil,
        completionHandler: CompletionHandler?
    ) -> SessionUploadTask {
        uploadTask(progress, completionHandler) { request }
    }

    /// A task that downloads into a file: a GET, with the settings of `DownloadOperation`.
    ///
    /// - Parameters:
    ///   - request: a GET without a body and without a range.
    ///   - progress: called as bytes come.
    ///   - destination: says where the file is to be, when it is whole; called on ``handlerQueue``. Nothing that is there is
    ///     replaced: the task fails then. nil leaves the file where it is.
    ///   - completionHandler: called with the file's place.
    public final func downloadTask(
        with request: URLRequest, progress: TransferProgress.Handler? = nil, destination: Destination? = nil,
        completionHandler: DownloadCompletionHandler?
    ) -> SessionDownloadTask {
        downloadTask(request, resuming: nil, progress, destination, completionHandler)
    }

    /// A task that goes on with a download that was stopped, in this manager or another one with the same
    /// `temporaryDirectory`, also of another process. If the server has another file by now, or what was there is gone, it
    /// starts over.
    ///
    /// - Parameters:
    ///   - resumeData: what the other task has left.
    ///   - request: a request for the same URL, for its header fields, as resume data has none; nil for a plain GET. The
    ///     signature in its query may be a new one.
    ///   - progress: called as bytes come.
    ///   - destination: says where the file is to be, when it is whole; see
    ///     ``downloadTask(with:progress:destination:completionHandler:)``.
    ///   - completionHandler: called with the file's place.
    /// - Throws: `ResumeDataError.otherURL` for a request of another resource.
    public final func downloadTask(
        with resumeData: ResumeData, request: URLRequest? = nil, progress: TransferProgress.Handler? = nil,
        destination: Destination? = nil, completionHandler: DownloadCompletionHandler?
    ) throws(ResumeDataError) -> SessionDownloadTask {
        if let request, request.url.map(resumeData.isOf) != true { throw .otherURL }
        return downloadTask(
            request ?? URLRequest(url: resumeData.url), resuming: resumeData.name, progress, destination,
            completionHandler)
    }

    /// The same for resume data as bytes, which may come from anybody.
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

    // MARK: Without handlers

    /// A task whose response is kept in memory, without handlers of its own.
    public final func dataTask(with request: URLRequest) -> SessionDataTask {
        dataTask(with: request, completionHandler: nil)
    }

    /// A task that sends a file, without handlers of its own.
    public final func uploadTask(with request: URLRequest, fromFile file: URL) -> SessionUploadTask {
        uploadTask(with: request, fromFile: file, completionHandler: nil)
    }

    /// A task that sends data, without handlers of its own.
    public final func uploadTask(with request: URLRequest, from data: Data) -> SessionUploadTask {
        uploadTask(with: request, from: data, completionHandler: nil)
    }

    /// A task that sends the stream of its request, without handlers of its own.
    public final func uploadTask(withStreamedRequest request: URLRequest) -> SessionUploadTask {
        uploadTask(withStreamedRequest: request, completionHandler: nil)
    }

    /// A task that downloads into a file, without handlers of its own.
    public final func downloadTask(with request: URLRequest) -> SessionDownloadTask {
        downloadTask(with: request, completionHandler: nil)
    }

    /// A task that goes on with a download that was stopped, without handlers of its own.
    public final func downloadTask(with resumeData: ResumeData) -> SessionDownloadTask {
        downloadTask(URLRequest(url: resumeData.url), resuming: resumeData.name, nil, nil, nil)
    }

    /// The same for resume data as bytes, which may come from anybody.
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

    /// A request with a body, and what it says of it.
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
