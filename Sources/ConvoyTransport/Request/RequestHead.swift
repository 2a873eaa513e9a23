import ConvoySupport
import Foundation

/// The head of a request as it is sent: the method, the URL, and the header fields with those that were added on the way,
/// but for what is meant for a proxy. The counterpart of ``ResponseHead``.
///
/// It has secrets, as the request has them; its description has none.
public struct RequestHead: Sendable {
    /// The method, such as `GET`.
    public let method: String
    /// The length of the body in bytes: 0 for none, nil if nobody knows it before it is sent.
    public let bodyLength: Int64?
    /// The URL as text.
    package let address: String
    private let header: RequestHeader
    /// What of it is secret.
    package let secrets: SecretClassifier

    init(method: String, address: String, header: RequestHeader, bodyLength: Int64?, secrets: SecretClassifier) {
        (self.method, self.address, self.header, self.bodyLength) = (method, address, header, bodyLength)
        self.secrets = secrets
    }

    /// The URL; nil if Foundation cannot read it.
    public var url: URL? { URL(string: address) }

    /// The header fields, with `Host` and the length of a body that is known. HTTP/2 sends some of them by other names
    /// (RFC 9113, section 8.3.1).
    public var fields: [(name: String, value: String)] {
        var fields = header.makeSentFields()
        if !fields.contains(where: { ASCII.equalIgnoringCase($0.name.utf8, "host".utf8) }),
            let host = Target(address)?.authority
        {
            fields.insert(("Host", host), at: 0)
        }
        // What libcurl adds.
        if !fields.contains(where: { ASCII.equalIgnoringCase($0.name.utf8, "accept".utf8) }) {
            fields.append(("Accept", "*/*"))
        }
        if let bodyLength, bodyLength > 0 || ["POST", "PUT", "PATCH"].contains(method) {
            fields.append(("Content-Length", "\(bodyLength)"))
        } else if bodyLength == nil {
            fields.append(("Transfer-Encoding", "chunked"))
        }
        return fields
    }

    /// The value of a header field; nil if it is not sent. Names are case-insensitive.
    public subscript(name: String) -> String? {
        fields.first { ASCII.equalIgnoringCase($0.name.utf8, name.utf8) }?.value
    }

}

extension RequestHead: CustomStringConvertible {
    /// The method and the URL, without secrets.
    public var description: String { "\(method) \(Redaction.url(address, secrets))" }
}

extension RequestHead: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
