import Dispatch
import Foundation
import FoundationNetworking

extension URLRequestSerialization {
    /// Writes the body stream of a request to a file, from which it can be sent;
    /// `requestWithMultipartFormRequest:writingStreamContentsToFile:completionHandler:`.
    ///
    /// The file gets its name only when it is complete; an existing file is replaced then, and stays unchanged if this
    /// fails. If the request's own stream can be replayed, it is not consumed.
    ///
    /// The file is written on a background queue. Cancelling the task stops it between two blocks.
    ///
    /// - Parameters:
    ///   - request: a request with a body stream, as `multipartFormRequest` makes.
    ///   - fileURL: the file to write.
    /// - Returns: the request without its body stream. Its headers, including `Content-Length`, fit the file.
    /// - Throws: an error in ``URLRequestSerializationErrorDomain`` for a request without a stream, a URL that is not a
    ///   file URL, or a body whose length is not `Content-Length`; the stream's error; an error in `NSPOSIXErrorDomain`
    ///   for the file; `CancellationError`.
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
    /// - Returns: the request without its body stream, at once.
    /// - Throws: for a request or URL that cannot be used, at once. The handler is then not called.
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
