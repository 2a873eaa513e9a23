import ConvoySerialization
import Foundation

/// What a call asks for, with values that are not converted yet.
struct ManagerCall {
    let method: HTTPMethod
    let url: String
    let parameters: Any?
    let body: (any Encodable)?
    let headers: [String: String?]
    let timeout: Timeout?

    init(
        _ method: HTTPMethod, _ url: String, _ parameters: Any?, _ body: (any Encodable)?, _ headers: [String: String?],
        _ timeout: Timeout?
    ) {
        (self.method, self.url, self.parameters) = (method, url, parameters)
        (self.body, self.headers, self.timeout) = (body, headers, timeout)
    }

    func apply(to operation: HTTPRequestOperation) {
        guard let timeout else { return }
        operation.change { values in
            if let idle = timeout.idle { values.idleTimeout = idle }
            if let total = timeout.total { values.totalTimeout = total }
        }
    }
}
