import ConvoySupport
import Foundation
import FoundationNetworking

/// A response that is not acceptable: its status, its content type, or its size.
///
/// ```swift
/// do {
///     let user: User = try await manager.get("users/1")
/// } catch let error as HTTPError where error.statusCode == 404 {
///     print("no such user:", try error.decoded(as: Problem.self).title)
/// }
/// ```
///
/// It is an `NSError` in ``URLResponseSerializationErrorDomain``, with AFNetworking's codes and keys, for those who look
/// at these. Printed, it is one line, without the header and the body.
public final class HTTPError: NSError, @unchecked Sendable {
    /// The response, with its head.
    public var response: HTTPURLResponse? { userInfo[URLResponseSerializationErrorKey.response] as? HTTPURLResponse }

    /// The status code of the response, which may be a successful one: of a body that has an unacceptable type.
    public var statusCode: Int? { response?.statusCode }

    /// The URL that the response came from.
    public var url: URL? { response?.url ?? userInfo[NSURLErrorFailingURLErrorKey] as? URL }

    /// The body of the response, if it has one.
    public var data: Data? { userInfo[URLResponseSerializationErrorKey.data] as? Data }

    /// What the serializer made of the body, if it is of a kind that it reads.
    public var responseObject: Any? { userInfo[URLResponseSerializationErrorKey.responseObject] }

    /// The limit that the response has exceeded, if that is why it is not acceptable.
    public var exceededLimit: ResponseLimitExceeded? {
        userInfo[URLResponseSerializationErrorKey.limit] as? ResponseLimitExceeded
    }

    /// The body as a value of a type, for the errors that a service describes in JSON.
    ///
    /// - Throws: `DecodingError`, also for a response without a body.
    public func decoded<Value: Decodable>(
        as type: Value.Type = Value.self, by decoder: JSONDecoder = JSONDecoder()
    ) throws -> Value {
        if let value = responseObject as? Value { return value }
        return try decoder.decodeIndexed(type, from: data ?? Data())
    }

    public override var description: String { ErrorDescription.line(of: self) }
}

extension DecodingError {
    /// The same error, which names the URL of the response and where in it the value stands.
    func naming(_ url: URL?) -> DecodingError {
        func naming(_ context: Context) -> Context {
            var place = ""
            for key in context.codingPath {
                place += key.intValue.map { "[\($0)]" } ?? (place.isEmpty ? key.stringValue : ".\(key.stringValue)")
            }
            let path = place.isEmpty ? "the root" : place
            let source = url.map { " of the response from \(Redaction.url($0.absoluteString))" } ?? " of the response"
            return Context(
                codingPath: context.codingPath, debugDescription: "At \(path)\(source): \(context.debugDescription)",
                underlyingError: context.underlyingError)
        }
        return switch self {
        case .typeMismatch(let type, let context): .typeMismatch(type, naming(context))
        case .valueNotFound(let type, let context): .valueNotFound(type, naming(context))
        case .keyNotFound(let key, let context): .keyNotFound(key, naming(context))
        case .dataCorrupted(let context): .dataCorrupted(naming(context))
        @unknown default: self
        }
    }
}
