import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The parts that a request serializer adds to every request, prepared once. Most requests are created from a template
/// without a `URL` or a `URLRequest`, whose creation would take longer than sending the request.
final class RequestTemplate: Sendable {
    private let http: HTTPRequestSerializer
    private let json: JSONRequestSerializer?
    /// The fields of every request.
    private let fields: [String: String]
    /// The header of requests without other fields.
    private let header: RequestHeader
    private let timeoutInterval: TimeInterval
    /// Whether a GET without parameters has neither a query nor a body. A serializer that encodes the parameters of a
    /// GET in the body sends an empty body.
    private let isGetBare: Bool
    /// The last header with additional fields, kept because most calls repeat the fields of the previous call.
    private let lastHeader = Locked<MadeHeader?>(nil)

    private struct MadeHeader {
        let headers: [String: String?]
        let contentType: String?
        let hasBody: Bool
        let header: RequestHeader

        func suits(_ headers: [String: String?], _ contentType: String?, _ hasBody: Bool) -> Bool {
            guard self.hasBody == hasBody, self.contentType == contentType, self.headers.count == headers.count else {
                return false
            }
            // Compare the bytes, because strings that differ in their bytes may be equal.
            return headers.allSatisfy { name, value in
                guard let index = self.headers.index(forKey: name) else { return false }
                let (ownName, ownValue) = self.headers[index]
                guard ownName.isExactly(name) else { return false }
                return switch (ownValue, value) {
                case (nil, nil): true
                case (let own?, let other?): own.isExactly(other)
                default: false
                }
            }
        }
    }

    /// Creates a template. Returns nil for a serializer that must create each request itself: a serializer of a
    /// different type, or a serializer that sets more than fields and the timeout, or sets fields that cannot be sent.
    init?(_ serializer: any URLRequestSerialization) {
        switch serializer {
        case let serializer as HTTPRequestSerializer:
            http = serializer
            json = nil
        case let serializer as JSONRequestSerializer:
            http = serializer.http
            json = serializer
        default: return nil
        }
        guard let fields = http.fieldsOfPlainRequests, let header = try? RequestHeader(fields: fields) else { return nil }
        self.fields = fields
        self.header = header
        timeoutInterval = http.timeoutInterval ?? Self.defaultTimeoutInterval
        isGetBare = json != nil || http.encodesParametersInURI(.get)
    }

    /// Foundation's default timeout, in seconds.
    private static let defaultTimeoutInterval = URLRequest(url: URL(fileURLWithPath: "/")).timeoutInterval

    private static let methods: Set<HTTPMethod> = [.get, .head, .post, .put, .patch, .delete]

    /// Returns the request of a call, as the serializer would create it; nil if the serializer must create or reject
    /// the request.
    ///
    /// - Parameters:
    ///   - parameters: The parameters of the call.
    ///   - reference: The URL of the call.
    ///   - body: The body, if it replaces the parameters, which then become the query.
    ///   - settings: The settings, which determine the origins that receive secrets.
    func request(
        _ call: RequestArguments, _ parameters: ParameterValue?, to reference: SimpleURLReference, body: RequestBody?,
        under settings: RequestSettings
    ) -> TransferRequest? {
        guard call.method == .get || Self.methods.contains(call.method) else { return nil }
        var (query, data, contentType) = ("", Data?.none, String?.none)
        let isBare = isGetBare && call.method == .get && parameters == nil && body == nil
        if !isBare {
            // If the parameters are invalid, the serializer reports the error.
            guard let parts = try? http.plainParts(call.method, parameters, body: body, json: json) else { return nil }
            query = parts.query
            data = parts.body?.data
            contentType = parts.body?.contentType
        }
        // The base URL's target is always in the scope.
        guard
            reference.leadsToBase || settings.values.holder.secretScope.mayReceiveSecrets(reference.target)
                || !hasSecrets(contentType, settings.values.connectionConfiguration.secrets),
            let address = reference.address(appending: query),
            let header = header(adding: call.headers, contentType, hasBody: data?.isEmpty == false)
        else { return nil }
        return TransferRequest(
            address: address, isSentAsWritten: reference.isSentAsWritten, method: call.method.rawValue, header: header,
            body: data, timeoutInterval: timeoutInterval)
    }

    /// Returns whether a field other than the call's own is secret.
    private func hasSecrets(_ contentType: String?, _ secrets: SecretClassifier) -> Bool {
        fields.keys.contains(where: secrets.contains) || contentType != nil && secrets.contains("Content-Type")
    }

    /// Returns the common header merged with the request's own fields. A nil value removes a common field.
    private func header(adding headers: [String: String?], _ contentType: String?, hasBody: Bool) -> RequestHeader? {
        if headers.isEmpty, contentType == nil { return header }
        if let last = lastHeader.withLock({ $0 }), last.suits(headers, contentType, hasBody) { return last.header }
        guard let made = makeHeader(adding: headers, contentType, hasBody: hasBody) else { return nil }
        lastHeader.withLock {
            $0 = MadeHeader(headers: headers, contentType: contentType, hasBody: hasBody, header: made)
        }
        return made
    }

    /// - Returns: The header; nil if a field cannot be sent or if `headers` contains a name in two spellings.
    private func makeHeader(adding headers: [String: String?], _ contentType: String?, hasBody: Bool) -> RequestHeader? {
        func isNamed(_ name: String) -> Bool { headers.keys.contains { HTTPSyntax.isSameField($0, name) } }
        var merged = fields
        for name in fields.keys where isNamed(name) { merged[name] = nil }
        for (name, value) in headers {
            guard HTTPSyntax.isToken(name),
                headers.count == 1 || headers.keys.count(where: { HTTPSyntax.isSameField($0, name) }) == 1
            else { return nil }
            merged[name] = value
        }
        if let contentType, !isNamed("Content-Type"),
            !fields.keys.contains(where: { HTTPSyntax.isSameField($0, "Content-Type") })
        {
            merged["Content-Type"] = contentType
        }
        return try? RequestHeader(fields: merged, hasBody: hasBody)
    }
}
