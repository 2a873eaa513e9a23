import ConvoySerialization
import Foundation
import FoundationNetworking

/// Checks the status of a response whose body is read while it comes. The body of a status that is not acceptable is parsed
/// as another serializer parses it, so that the error is the same.
struct StreamedResponseSerializer: HTTPResponseSerialization {
    var base: any HTTPResponseSerialization

    var http: HTTPResponseSerializer {
        get { base.http }
        set { base.http = newValue }
    }

    func responseObject(for response: URLResponse?, data: Data?) throws -> Any? {
        if let data { return try base.responseObject(for: response, data: data) }
        try HTTPResponseSerializer(statusesOf: base).validate(response, data: nil)
        return nil
    }
}
