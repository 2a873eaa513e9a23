import ConvoyOperations
import ConvoySupport
import Foundation
import FoundationNetworking

/// A request to a storage before it is signed.
struct StorageCall: Sendable {
    var method: String
    /// The key with the storage's prefix; nil for the bucket itself.
    var key: String?
    /// The query, encoded as it is signed.
    var query = ""
    var fields: [(name: String, value: String)] = []
    var payload = RequestPayload.none
    /// The field for the digest of the body, in addition to the signature.
    var checksum = ObjectStorage.ChecksumField.none
    var answer = AnswerKind.nothing
    /// The time limit in seconds; nil for that of the manager.
    var timeLimit: TimeInterval?
    /// The key without the prefix, for errors and results.
    var name: String?
}

/// A delegate that signs each attempt and each redirect of an operation just before it is sent. Only redirects within
/// the storage are followed.
final class RequestSigner: OperationDelegate {
    private let place: StoragePlace
    private let call: StorageCall

    init(_ call: StorageCall, in place: StoragePlace) {
        self.call = call
        self.place = place
    }

    func interests(in operation: URLConnectionOperation) -> OperationInterests { [.beginning, .redirects] }

    func willBegin(_ operation: URLConnectionOperation) throws {
        do {
            try call.payload.check()
            var request = operation.request
            let region = place.region
            let address = place.endpoint.address(of: call.key, in: region)
            request.url = try place.url(address, query: call.query)
            try sign(&request, in: region)
            let signed = request
            operation.changeRequest { $0 = signed }
        } catch let error as ObjectStorageError {
            throw error.about(bucket: place.endpoint.bucket, key: call.name)
        }
    }

    func operation(
        _ operation: URLConnectionOperation, willFollow request: URLRequest, after response: HTTPURLResponse?,
        decide: @escaping @Sendable (URLRequest?) -> Void
    ) {
        guard let url = request.url, let target = Target(url), place.endpoint.includes(target),
            request.httpMethod == call.method
        else { return decide(nil) }
        let named = response?.value(forHTTPHeaderField: "x-amz-bucket-region") ?? place.endpoint.region(of: target)
        if let named { _ = place.memory.learn(region: named, otherThan: place.region) }
        var next = operation.request
        next.url = url
        if call.payload.stream != nil { next.httpBodyStream = request.httpBodyStream }
        do {
            try sign(&next, in: place.region)
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
    private func sign(_ request: inout URLRequest, in region: String) throws {
        guard let address = request.url.flatMap({ HTTPAddress($0.absoluteString) }) else {
            throw ObjectStorageError(.invalidConfiguration, "The request has no URL.")
        }
        let credentials = try place.credentials.credentials()
        let signature = SignatureV4(credentials: credentials, region: region, date: place.memory.now)
        var fields = call.fields
        let payload: SignatureV4.Payload
        if call.payload.length == 0, call.checksum == .none {
            payload = .empty
        } else {
            let digests = try call.payload.digests()
            payload = .digest(digests.sha256.hexadecimalString)
            switch call.checksum {
            case .none: break
            case .sha256: fields.append(("x-amz-checksum-sha256", digests.sha256.base64EncodedString()))
            case .md5:
                if let md5 = digests.md5 { fields.append(("Content-MD5", md5.base64EncodedString())) }
            }
        }
        fields.append(("x-amz-content-sha256", payload.text))
        fields.append(("x-amz-date", signature.timestamp))
        if let token = credentials.sessionToken { fields.append(("x-amz-security-token", token)) }
        // An earlier attempt may have used different credentials.
        request.setValue(nil, forHTTPHeaderField: "x-amz-security-token")
        for field in fields { request.setValue(field.value, forHTTPHeaderField: field.name) }
        let parts = address.afterAuthority.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        request.setValue(
            try signature.authorization(
                method: call.method, path: parts.first.map(String.init) ?? "",
                query: parts.count > 1 ? String(parts[1].prefix { $0 != "#" }) : "",
                headers: fields + [("host", address.target.authority)], payload: payload),
            forHTTPHeaderField: "Authorization")
    }
}
