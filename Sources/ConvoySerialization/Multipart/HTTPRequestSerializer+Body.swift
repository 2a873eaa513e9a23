import ConvoySupport
import Foundation
import FoundationNetworking

extension HTTPRequestSerializer {
    /// A new request with a body, and the parameters as its query.
    ///
    /// A file is read again after a redirect. If its length changes before it is sent, the transfer fails.
    ///
    /// - Throws: as ``request(method:url:parameters:headers:)``; an error for a file that cannot be read, or a negative
    ///   length.
    package func request(
        method: HTTPMethod, url: URL, query: Parameter?, headers: [String: String?], body: RequestBody
    ) throws -> URLRequest {
        var serializer = self
        serializer.httpMethodsEncodingParametersInURI.insert(method)
        var request = try serializer.request(method: method, url: url, parameters: query, headers: headers)
        try set(body, of: &request)
        // The body may have set a field that the caller wants removed.
        for (name, value) in headers where value == nil { request.setValue(nil, forHTTPHeaderField: name) }
        return request
    }

    /// A request that sends a body; a GET becomes a POST.
    ///
    /// - Throws: an error for a file that cannot be read, or a negative length.
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
                throw NSError.request(.invalidPart, "The length of a stream is negative.", subject: String(length))
            }
            let layout = try MultipartLayout(pieces: [.stream(StreamSource(stream, length: length))])
            setStream(layout, contentType: MIMEType.unknown, of: &request)
        case .ownStream(let stream, let length):
            if let length, length < 0 {
                throw NSError.request(.invalidPart, "The length of a body is negative.", subject: String(length))
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
