import ConvoySupport
import Dispatch
import Foundation
import FoundationNetworking
import Synchronization

extension HTTPRequestSerializer {
    /// Creates a request with a body, and with the parameters as its query.
    ///
    /// A file is read again after a redirect. If its length changes before it is sent, the transfer fails.
    ///
    /// - Throws: The errors of ``request(method:url:parameters:headers:)``, and an error if a file cannot be read or a
    ///   length is negative.
    package func request(
        method: HTTPMethod, url: URL, query: ParameterValue?, headers: [String: String?], body: RequestBody
    ) throws -> URLRequest {
        var serializer = self
        serializer.httpMethodsEncodingParametersInURI.insert(method)
        var request = try serializer.request(method: method, url: url, parameters: query, headers: headers)
        try set(body, of: &request)
        // The body may have set a field that the caller has asked to remove.
        for (name, value) in headers where value == nil { request.setValue(nil, forHTTPHeaderField: name) }
        return request
    }

    /// Returns a request that sends a body. A GET becomes a POST.
    ///
    /// - Throws: An error if a file cannot be read or a length is negative.
    package static func request(_ request: URLRequest, sending body: RequestBody) throws -> URLRequest {
        var request = request
        if request.httpMethod == nil || request.httpMethod == "GET" { request.httpMethod = "POST" }
        try HTTPRequestSerializer().set(body, of: &request)
        return request
    }

    private func set(_ body: RequestBody, of request: inout URLRequest) throws {
        switch body {
        case .data(let data, let contentType): try setBody(data, contentType: contentType, of: &request)
        case .file(let file):
            let type = MIMEType.type(forPathExtension: file.pathExtension)
            setStream(try MultipartLayout(pieces: [.file(FileSource(url: file))]), contentType: type, of: &request)
        case .stream(let stream, let length):
            guard length >= 0 else {
                throw NSError.request(.invalidPart, "The length of a stream must not be negative.", subject: String(length))
            }
            let layout = try MultipartLayout(pieces: [.stream(StreamSource(stream, length: length))])
            setStream(layout, contentType: MIMEType.unknown, of: &request)
        case .ownStream(let stream, let length):
            if let length, length < 0 {
                throw NSError.request(.invalidPart, "The length of a body must not be negative.", subject: String(length))
            }
            setStream(stream, length: length, contentType: MIMEType.unknown, of: &request)
        }
    }

    private func setStream(_ layout: MultipartLayout, contentType: String, of request: inout URLRequest) {
        let stream = MultipartBodyStream(layout: layout, packetSize: .max, delay: 0)
        setStream(stream, length: layout.length, contentType: contentType, of: &request)
    }

    private func setStream(
        _ stream: InputStream, length: Int64?, contentType: String, of request: inout URLRequest
    ) {
        if request.value(forHTTPHeaderField: "Content-Type") == nil {
            request.setValue(contentType, forHTTPHeaderField: "Content-Type")
        }
        if let length { request.setValue(String(length), forHTTPHeaderField: "Content-Length") }
        request.httpBodyStream = stream
    }
}

extension URLRequestSerialization {
    /// Creates a request with a `multipart/form-data` body (RFC 7578). The counterpart of
    /// `multipartFormRequestWithMethod:URLString:parameters:constructingBodyWithBlock:error:`.
    ///
    /// Each field of the parameters, according to the query style, becomes a part that precedes those appended by the
    /// closure. Data is sent raw, null as an empty part, and all other values as text in the serializer's
    /// `stringEncoding`.
    ///
    /// The body is an unopened stream, and `Content-Length` is its exact length. If there are no
    /// parts, the request has no form body.
    ///
    /// - Parameters:
    ///   - method: Any method except GET and HEAD.
    ///   - url: The URL of the request.
    ///   - parameters: Fields to send before the parts; nil for none.
    ///   - headers: Headers for this request only. A nil value removes a field.
    ///   - constructingBody: A closure that appends the parts, called once before this method returns.
    /// - Throws: The errors of ``request(method:url:parameters:headers:)``, the closure's error, and an error if a part
    ///   cannot be sent.
    public func multipartFormRequest(
        method: HTTPMethod = .post, url: URL, parameters: ParameterValue? = nil, headers: [String: String?] = [:],
        constructingBody: (inout MultipartFormData) throws -> Void = { _ in }
    ) throws -> URLRequest {
        let upper = method.rawValue.uppercased()
        guard upper != "GET", upper != "HEAD" else {
            throw NSError.request(
                .invalidMethod, "A multipart form cannot be sent with \(upper).", subject: method.rawValue)
        }
        var request = try self.request(method: method, url: url, parameters: nil, headers: headers)
        let http = (self as? any HTTPRequestSerialization)?.http ?? HTTPRequestSerializer()
        var form = MultipartFormData()
        if let parameters {
            for pair in try http.queryStringStyle.pairs(from: parameters) {
                form.appendPart(formData: try http.formData(of: pair.value), name: pair.field)
            }
        }
        try constructingBody(&form)
        if let failure = form.failure { throw failure }
        guard !form.parts.isEmpty else { return request }

        let layout = try MultipartLayout(parts: form.parts, boundary: form.boundary)
        let stream = MultipartBodyStream(layout: layout, packetSize: form.packetSize, delay: form.delay)
        request.httpBody = nil
        request.httpBodyStream = stream
        // A single assignment is cheaper than even one call that sets a field.
        var fields = request.allHTTPHeaderFields ?? [:]
        for name in fields.keys where HTTPSyntax.isSameField(name, "Content-Type") { fields[name] = nil }
        for name in fields.keys where HTTPSyntax.isSameField(name, "Content-Length") { fields[name] = nil }
        fields["Content-Type"] = "multipart/form-data; boundary=\(form.boundary)"
        fields["Content-Length"] = String(layout.length)
        request.allHTTPHeaderFields = fields
        return request
    }
}

extension HTTPRequestSerializer {
    /// Returns the bytes of a form field.
    fileprivate func formData(of value: ParameterValue) throws -> Data {
        switch value {
        case .null: return Data()
        case .data(let data): return data
        default:
            guard let data = try queryStringStyle.text(of: value).data(using: stringEncoding) else {
                throw NSError.request(.invalidText, "A field cannot be represented in the serializer's string encoding.")
            }
            return data
        }
    }
}

extension URLRequestSerialization {
    /// Writes the body stream of a request to a file, from which it can be sent. The counterpart of
    /// `requestWithMultipartFormRequest:writingStreamContentsToFile:completionHandler:`.
    ///
    /// The file appears under its name only when complete, replacing an existing file. If writing fails, an existing
    /// file remains unchanged. If the request's stream can be replayed, it is not consumed.
    ///
    /// The file is written on a background queue. If the task is cancelled, writing stops after the current block.
    ///
    /// - Parameters:
    ///   - request: A request with a body stream, as created by `multipartFormRequest`.
    ///   - fileURL: The file to write.
    /// - Returns: The request without its body stream. Its headers, including `Content-Length`, match the file.
    /// - Throws: An error in ``URLRequestSerializationErrorDomain`` if the request has no stream, the URL is not a file
    ///   URL, or the length of the body differs from `Content-Length`; the stream's error; an error in
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

    /// Writes the body stream of a request to a file, and calls a handler once, on `completionQueue` or, if that is
    /// nil, on the main queue.
    ///
    /// - Returns: The request without its body stream, immediately.
    /// - Throws: An error, immediately, if the request or URL cannot be used. The handler is then not called.
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

/// A job that copies a body to a file. It runs once, on a single thread.
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

        // A random name prevents two jobs for the same file from interfering before the final rename.
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
                throw StreamSource.exhausted("The body stream returned \(count) bytes for a buffer of \(block.count) bytes.")
            }
            try block.withUnsafeBytes { try file.write(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            total += Int64(count)
        }
        if let expectedLength, expectedLength != total {
            throw StreamSource.exhausted(
                "The body has \(total) bytes, but Content-Length is \(expectedLength).")
        }
        try file.commit()
    }
}
