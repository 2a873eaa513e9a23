import ConvoyObjectStorage
import ConvoyOperations
import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The region and the service of `aws-sigv4`, which has the format of curl: `aws:amz:REGION:SERVICE`.
struct SignatureScope: Sendable {
    static let rule = "aws-sigv4 must be aws:amz:REGION:SERVICE"

    /// The region, or nil to take it from the name of the server.
    let region: String?
    /// The service, or nil to take it from the name of the server.
    let service: String?

    /// Parses a scope. Returns nil if it is invalid.
    init?(_ text: String) {
        let parts = text.split(separator: ":" as Character, omittingEmptySubsequences: false).map(String.init)
        guard (1...4).contains(parts.count), parts[0].lowercased() == "aws",
            parts.count < 2 || parts[1].lowercased() == "amz", parts.dropFirst(2).allSatisfy(Self.isName)
        else { return nil }
        region = parts.count > 2 ? parts[2] : nil
        service = parts.count > 3 ? parts[3] : nil
    }

    private static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    }

    /// Returns the region and the service for a server. The names of AWS's servers contain both: `sqs.eu-west-1.amazonaws.com`.
    func names(for host: String) throws(EvaluationError) -> (region: String, service: String) {
        if let region, let service { return (region, service) }
        let labels = host.split(separator: "." as Character).map(String.init)
        guard labels.count > 3, labels[2] == "amazonaws", labels.prefix(2).allSatisfy(Self.isName) else {
            throw EvaluationError(message: "aws-sigv4: \(quoted(host)) does not name a service; \(Self.rule)")
        }
        return (region ?? labels[1], service ?? labels[0])
    }
}

/// A delegate that signs each attempt and each redirect of a request with AWS Signature Version 4 just before it is sent.
final class RequestSignature: OperationDelegate {
    private let scope: SignatureScope
    private let credentials: ObjectStorageCredentials
    /// The file that is the body, or nil.
    private let file: URL?

    init(_ scope: SignatureScope, _ credentials: ObjectStorageCredentials, sending file: URL?) {
        self.scope = scope
        self.credentials = credentials
        self.file = file
    }

    /// A signature says nothing about the body, which only `location-trusted` lets leave its origin.
    var decidesForUser: Bool { false }

    func interests(in operation: URLConnectionOperation) -> OperationInterests { [.beginning, .redirects] }

    func willBegin(_ operation: URLConnectionOperation) throws {
        var request = operation.request
        try sign(&request, of: operation)
        let signed = request
        operation.changeRequest { $0 = signed }
    }

    func operation(
        _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        // Another origin receives no signature, because the field has been removed.
        guard request.value(forHTTPHeaderField: "Authorization") != nil else { return decide(request) }
        var next = request
        do {
            try sign(&next, of: operation)
            decide(next)
        } catch {
            decide(nil)
        }
    }

    func operation(
        _ operation: URLConnectionOperation, didReceive challenge: AuthenticationChallenge,
        answer: @escaping @Sendable (AuthenticationDisposition) -> Void
    ) { answer(.performDefaultHandling) }

    /// Replaces the signature of a request.
    private func sign(_ request: inout URLRequest, of operation: URLConnectionOperation) throws {
        let keepsDots = operation.connectionConfiguration.keepsDotSegments
        guard let address = request.url.flatMap({ HTTPAddress($0.absoluteString) }),
            let target = RequestTarget.originForm(of: address, keepingDotSegments: keepsDots)
        else { throw URLError(.badURL) }
        let (region, service) = try scope.names(for: address.target.host)
        var signature = SignatureV4(credentials: credentials, region: region, date: Date())
        signature.service = service
        let payload = try payload(of: request)
        request.setValue(signature.timestamp, forHTTPHeaderField: "X-Amz-Date")
        // Only S3 requires the digest as a field.
        if service == "s3" { request.setValue(payload.text, forHTTPHeaderField: "X-Amz-Content-SHA256") }
        let fields = request.allHTTPHeaderFields ?? [:]
        let signed = fields.filter { name, _ in
            let name = name.lowercased()
            return name == "content-type" || name.hasPrefix("x-amz-")
        }
        let host = fields.first { $0.key.lowercased() == "host" }?.value ?? address.target.authority
        let parts = target.split(separator: "?" as Character, maxSplits: 1, omittingEmptySubsequences: false).map(
            String.init)
        // All services except S3 sign the path encoded twice.
        let path = service == "s3" ? parts[0] : SignatureV4.encoded(parts[0], keepsSlashes: true)
        let value = try signature.authorization(
            method: request.httpMethod ?? "GET", path: path, query: parts.count > 1 ? parts[1] : "",
            headers: signed.map { ($0.key, $0.value) } + [("host", host)], payload: payload)
        request.setValue(value, forHTTPHeaderField: "Authorization")
    }

    private func payload(of request: URLRequest) throws -> SignatureV4.Payload {
        if let data = request.httpBody {
            guard let digest = MessageDigest.sha256(data) else { throw EvaluationError(message: "cannot sign the body") }
            return .digest(digest.hexadecimalString)
        }
        guard request.httpBodyStream != nil else { return .empty }
        guard let file else { throw EvaluationError(message: "cannot sign the body") }
        let reader = try FileHandle(forReadingFrom: file), digest = MessageDigest()
        defer { try? reader.close() }
        while let part = try reader.read(upToCount: 1 << 20), !part.isEmpty {
            digest.update(part)
        }
        guard let value = digest.value() else { throw EvaluationError(message: "cannot sign the body") }
        return .digest(value.hexadecimalString)
    }
}
