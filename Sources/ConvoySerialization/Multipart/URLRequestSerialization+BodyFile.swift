import Dispatch
import Foundation
import FoundationNetworking

extension URLRequestSerialization {
    /// Writes the body stream of a request to a file, for sending it from there;
    /// `requestWithMultipartFormRequest:writingStreamContentsToFile:completionHandler:`.
    ///
    /// The file appears under its name only when it is whole; a file that was there is replaced, and stays as it was
    /// if this fails. The request's own stream is not used up where it can be replayed.
    ///
    /// The writing is done on a background queue. Cancelling the task stops it between two blocks.
    ///
    /// - Parameters:
    ///   - request: a request with a body stream, as `multipartFormRequest` makes.
    ///   - fileURL: the file to write.
    /// - Returns: the request without its body stream. Its headers, `Content-Length` among them, fit the file.
    /// - Throws: in ``URLRequestSerializationErrorDomain`` for a request without a stream, a URL that is no file URL,
    ///   and a body that is not as long as `Content-Length` says; the stream's error; an error in
    ///   `NSPOSIXErrorDomain` for the file; `CancellationError`.
    public func writeMultipartBody(of request: URLRequest, to fileURL: URL) async throws -> URLRequest {
        let job = try BodyFileJob(request: request, fileURL: fileURL)
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                DispatchQueue.global().async { continuation.resume(with: job.run()) }
            }
        } onCancel: {
            job.cancel()
        }
        return job.requestWithoutBody
    }

    /// The same with a handler, which is called once, on `completionQueue` or, if that is nil, on the main queue.
    ///
    /// - Returns: at once, the request without its body stream.
    /// - Throws: at once, for a request or URL that cannot be used. The handler is then not called.
    @discardableResult
    public func writeMultipartBody(
        of request: URLRequest, to fileURL: URL, completionQueue: DispatchQueue? = nil,
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) throws -> URLRequest {
        let job = try BodyFileJob(request: request, fileURL: fileURL)
        DispatchQueue.global().async {
            let result = job.run()
            (completionQueue ?? .main).async {
                switch result {
                case .success: completionHandler(nil)
                case .failure(let error): completionHandler(error)
                }
            }
        }
        return job.requestWithoutBody
    }
}
