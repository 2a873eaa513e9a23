import ConvoySupport
import Dispatch
import Foundation
import FoundationNetworking
import Synchronization

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

/// Copies one body to a file. Run once, on one thread.
final class BodyFileJob: Sendable {
    let requestWithoutBody: URLRequest
    private let original: URLRequest
    private let path: String
    private let expectedLength: Int64?
    private let isCancelled = Atomic(false)

    init(request: URLRequest, fileURL: URL) throws {
        guard request.httpBodyStream != nil else {
            throw NSError.request(.invalidParameters, "The request has no body stream.")
        }
        guard fileURL.isFileURL else {
            throw NSError.request(
                .unusableFile, "Expected URL to be a file URL", subject: fileURL.absoluteString, code: NSURLErrorBadURL)
        }
        original = request
        path = fileURL.path
        expectedLength = request.value(forHTTPHeaderField: "Content-Length").flatMap { Int64($0) }
        var copy = request
        copy.httpBodyStream = nil
        requestWithoutBody = copy
    }

    func cancel() { isCancelled.store(true, ordering: .relaxed) }

    func run() -> Result<Void, any Error> {
        Result {
            do {
                try copy()
            } catch let failure as FileWritingError {
                throw failure.cause.error(path: path)
            }
        }
    }

    private func copy() throws {
        guard var stream = original.httpBodyStream else { return }
        if let replayable = stream as? any ReplayableBodyStream { stream = try replayable.replay() }
        if stream.streamStatus == .notOpen { stream.open() }
        defer { stream.close() }

        // Its random name keeps two jobs for the same file from interfering before the final rename.
        let file = FileWriter(private: path)
        try file.open()
        var block = [UInt8](repeating: 0, count: 256 * 1024)
        var total: Int64 = 0
        while true {
            if isCancelled.load(ordering: .relaxed) { throw CancellationError() }
            let count = block.withUnsafeMutableBufferPointer { buffer in
                buffer.baseAddress.map { stream.read($0, maxLength: buffer.count) } ?? -1
            }
            if count == 0 { break }
            guard count > 0 else { throw stream.safeError ?? StreamSource.exhausted("The body could not be read.") }
            guard count <= block.count else {
                throw StreamSource.exhausted("The body's stream claims \(count) bytes of \(block.count).")
            }
            try block.withUnsafeBytes { try file.write(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            total += Int64(count)
        }
        if let expectedLength, expectedLength != total {
            throw StreamSource.exhausted(
                "The body has \(total) bytes, and Content-Length says \(expectedLength).")
        }
        try file.commit()
    }
}
