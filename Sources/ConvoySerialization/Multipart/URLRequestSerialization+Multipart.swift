import ConvoySupport
import Foundation
import FoundationNetworking

extension URLRequestSerialization {
    /// A new request with a `multipart/form-data` body (RFC 7578);
    /// `multipartFormRequestWithMethod:URLString:parameters:constructingBodyWithBlock:error:`.
    ///
    /// The parameters become one part for each field of the query style, before the parts that the closure appends.
    /// Data is sent raw, null as an empty part, everything else as text in the serializer's `stringEncoding`.
    ///
    /// The body is an unopened ``MultipartBodyStream``; `Content-Length` is its exact length. Without any parts, the
    /// request has no form body.
    ///
    /// - Parameters:
    ///   - method: any method but GET and HEAD.
    ///   - url: the URL of the request.
    ///   - parameters: fields to send before the parts; nil for none.
    ///   - headers: headers for this request only; a nil value removes a field.
    ///   - constructingBody: appends the parts. Called once, before this function returns.
    /// - Throws: as ``request(method:url:parameters:headers:)``; the closure's error; an error for a part that cannot
    ///   be sent.
    public func multipartFormRequest(
        method: HTTPMethod = .post, url: URL, parameters: Parameter? = nil, headers: [String: String?] = [:],
        constructingBody: (inout MultipartFormData) throws -> Void = { _ in }
    ) throws -> URLRequest {
        let upper = method.rawValue.uppercased()
        guard upper != "GET", upper != "HEAD" else {
            throw NSError.request(
                .invalidMethod, "A form with parts cannot be sent with \(upper).", subject: method.rawValue)
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
        // One assignment, as that is cheaper than even a single call for one field.
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
    /// The bytes of one field of a form.
    fileprivate func formData(of value: Parameter) throws -> Data {
        switch value {
        case .null: return Data()
        case .data(let data): return data
        default:
            guard let data = try queryStringStyle.text(of: value).data(using: stringEncoding) else {
                throw NSError.request(.invalidText, "A field cannot be expressed in the serializer's string encoding.")
            }
            return data
        }
    }
}
