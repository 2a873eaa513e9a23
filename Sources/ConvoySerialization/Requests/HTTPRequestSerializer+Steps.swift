import ConvoySupport
import Foundation
import FoundationNetworking

/// The steps of which the serializers are composed.
extension HTTPRequestSerializer {
    /// Applies only the properties that were set, so that other defaults are kept.
    func applyProperties(to request: inout URLRequest) {
        if let allowsCellularAccess { request.allowsCellularAccess = allowsCellularAccess }
        if let cachePolicy { request.cachePolicy = cachePolicy }
        if let httpShouldHandleCookies { request.httpShouldHandleCookies = httpShouldHandleCookies }
        if let networkServiceType { request.networkServiceType = networkServiceType }
        if let timeoutInterval { request.timeoutInterval = timeoutInterval }
    }

    /// The checked request, with the serializer's headers added unless it has them already.
    func requestWithHeaders(_ request: URLRequest) throws -> URLRequest {
        guard request.url != nil else { throw NSError.badURL(nil) }
        guard HTTPSyntax.isToken(request.httpMethod ?? "GET") else {
            throw NSError.request(
                .invalidMethod, "The method is not a token (RFC 9110, section 5.6.2).", subject: request.httpMethod)
        }
        try headers.check()
        var request = request
        // One assignment, as that is cheaper than even a single call for one field.
        if var fields = request.allHTTPHeaderFields, !fields.isEmpty {
            try HeaderFields.checkNames(fields.keys)
            for (name, value) in headers.fields where request.value(forHTTPHeaderField: name) == nil {
                fields[name] = value
            }
            request.allHTTPHeaderFields = fields
        } else {
            request.allHTTPHeaderFields = headers.fields
        }
        return request
    }

    /// The headers of all requests, if nothing but headers and the timeout is added to them, and all of them can be sent.
    package var fieldsOfPlainRequests: [String: String]? {
        guard allowsCellularAccess == nil, cachePolicy == nil, httpShouldHandleCookies == nil, networkServiceType == nil,
            (try? headers.check()) != nil
        else { return nil }
        return headers.fields
    }

    /// What parameters and a body become where no `URLRequest` is made of them. Nil where the serializer's user has asked
    /// for what needs one.
    ///
    /// - Parameters:
    ///   - method: a common one.
    ///   - body: sent in place of the parameters, which are the query then.
    ///   - json: what writes the parameters' body, if that is no form.
    package func plainParts(
        _ method: HTTPMethod, _ parameters: Parameter?, body: RequestBody?, json: JSONRequestSerializer?
    ) throws -> (query: String, body: (data: Data, contentType: String)?)? {
        if parameters != nil, queryStringSerialization != nil { return nil }
        func query() throws -> String { try parameters.map(queryStringStyle.queryString) ?? "" }
        if body == nil, encodesParametersInURI(method) { return (try query(), nil) }
        guard !compressesBody else { return nil }
        switch body {
        case .data(let data, let contentType): return (try query(), (data, contentType))
        case .file, .stream, .ownStream: return nil
        case nil: break
        }
        if let json { return ("", try parameters.map { (try json.body(of: $0), JSONRequestSerializer.contentType) }) }
        guard stringEncoding == .utf8 else { return nil }
        return ("", (Data(try query().utf8), Self.formContentType))
    }

    static let formContentType = "application/x-www-form-urlencoded"

    package func encodesParametersInURI(_ method: HTTPMethod) -> Bool {
        if httpMethodsEncodingParametersInURI.contains(method) { return true }
        return httpMethodsEncodingParametersInURI.contains { HTTPSyntax.isSameField($0.rawValue, method.rawValue) }
    }

    /// The query string, or nil if there are no parameters.
    func queryString(for request: URLRequest, parameters: Parameter?) throws -> String? {
        guard let parameters else { return nil }
        if let queryStringSerialization { return try queryStringSerialization(request, parameters) }
        return try queryStringStyle.queryString(from: parameters)
    }

    func appendQuery(of parameters: Parameter?, to request: inout URLRequest) throws {
        guard let query = try queryString(for: request, parameters: parameters), !query.isEmpty else { return }
        guard let url = request.url, let extended = url.appendingQuery(query) else {
            throw NSError.badURL(request.url)
        }
        request.url = extended
    }

    /// The request with its parameters as a query or, depending on the method, as a body of the given type. Nil
    /// parameters give neither body nor type.
    func request(
        _ request: URLRequest, with parameters: Parameter?, contentType: String, makingBody make: (Parameter) throws -> Data
    ) throws -> URLRequest {
        var request = try requestWithHeaders(request)
        if encodesParametersInURI(HTTPMethod(request.httpMethod ?? "GET")) {
            try appendQuery(of: parameters, to: &request)
        } else if let parameters {
            try setBody(try make(parameters), contentType: contentType, of: &request)
        }
        return request
    }

    /// Sets the body of a request, and its type unless it has one, and compresses the body if that is enabled.
    func setBody(_ body: Data, contentType: String, of request: inout URLRequest) throws {
        if request.value(forHTTPHeaderField: "Content-Type") == nil {
            request.setValue(contentType, forHTTPHeaderField: "Content-Type")
        }
        request.httpBody = body
        if compressesBody { try compressBody(of: &request) }
    }

    private func compressBody(of request: inout URLRequest) throws {
        guard let body = request.httpBody, request.value(forHTTPHeaderField: "Content-Encoding") == nil else { return }
        guard let compressed = try Gzip.compress(body), compressed.count < body.count else { return }
        request.httpBody = compressed
        request.setValue("gzip", forHTTPHeaderField: "Content-Encoding")
        // A length that was set for the uncompressed body would now be wrong.
        request.setValue(nil, forHTTPHeaderField: "Content-Length")
    }
}
