import ConvoySupport
import Foundation
import FoundationNetworking

extension HTTPCache {
    /// A body of more bytes is not given out as a `CachedURLResponse`, which holds it in memory.
    public static let cachedResponseLimit = 1 << 20

    /// What is stored for a request, whatever its age.
    ///
    /// The bytes are those that were stored: if the response has a `Content-Encoding`, they are encoded. Of the fields
    /// that the response varies by, those count that the request has; the ones that are added when it is sent are not
    /// known here. Only responses to requests that say nothing of who sends them are found: nothing is for a request with a
    /// secret field, such as `Authorization`, `Cookie` or `X-Api-Key`.
    ///
    /// - Returns: nil if nothing is stored, if the body has more than `cachedResponseLimit` bytes, or cannot be read.
    public func cachedResponse(for request: URLRequest) async -> CachedURLResponse? {
        guard let request = CacheRequest(request, policy: .storedOnly) else { return nil }
        let stored = await withCheckedContinuation { continuation in
            CacheExchange(storage, request, nil).lookUpLeniently { continuation.resume(returning: $0) }
        }
        guard let stored, stored.length <= Self.cachedResponseLimit else { return nil }
        let result = await withCheckedContinuation { continuation in
            stored.read(at: 0, count: stored.length) { continuation.resume(returning: $0) }
        }
        guard case .success(let bytes) = result, let url = URL(string: request.address),
            let response = HTTPURLResponse(url, stored.head.statusCode, stored.head.allFields)
        else { return nil }
        return CachedURLResponse(
            response: response, data: Data(bytes), userInfo: stored.userInfo.isEmpty ? nil : stored.userInfo,
            storagePolicy: .allowed)
    }

    /// Stores a response, as if it had arrived now. RFC 9111 decides whether it may be stored, and for how long it is
    /// fresh; of its `userInfo`, texts are kept. What is stored is for everybody, so a response to a request with a secret
    /// field is not.
    ///
    /// - Returns: whether it was stored.
    @discardableResult
    public func store(_ response: CachedURLResponse, for request: URLRequest) async -> Bool {
        guard response.storagePolicy != .notAllowed, let head = response.response as? HTTPURLResponse,
            let request = CacheRequest(request, policy: .reload)
        else { return false }
        let fields: Fields = head.allHeaderFields.compactMap { name, value in
            guard let name = name as? String, let value = value as? String else { return nil }
            return (name, value)
        }
        let userInfo = (response.userInfo ?? [:]).reduce(into: [String: String]()) { texts, pair in
            if let key = pair.key as? String, let value = pair.value as? String { texts[key] = value }
        }
        let handler: CacheResponseHandler = { candidate in
            var candidate = candidate
            candidate.userInfo = userInfo
            return candidate
        }
        let exchange = CacheExchange(storage, request, userInfo.isEmpty ? nil : handler)
        guard case .store(let writer) = exchange.receive(CachedHead(statusCode: head.statusCode, fields: fields))
        else { return false }
        response.data.withUnsafeBytes { writer.write($0) }
        guard let writer = writer as? CacheWriter else { return false }
        return await withCheckedContinuation { continuation in writer.complete { continuation.resume(returning: $0) } }
    }

    /// Removes what is stored for the URL of a request, whatever fields it varies by.
    public func remove(for request: URLRequest) {
        if let url = request.url { remove(for: url) }
    }
}

extension CacheCandidate {
    /// The response as Foundation's value, as AFNetworking's handlers get it; nil if the body has more than `dataLimit`
    /// bytes. Reading the body may block. The bytes are as they came: with the content coding that the fields name.
    public var cachedURLResponse: CachedURLResponse? {
        guard let url, let data, let response = HTTPURLResponse(url, statusCode, fields) else { return nil }
        return CachedURLResponse(
            response: response, data: data, userInfo: userInfo.isEmpty ? nil : userInfo, storagePolicy: .allowed)
    }
}

extension HTTPURLResponse {
    fileprivate convenience init?(_ url: URL, _ statusCode: Int, _ fields: [(name: String, value: String)]) {
        self.init(
            url: url, statusCode: statusCode, httpVersion: "HTTP/1.1",
            headerFields: Dictionary(fields.map { ($0.name, $0.value) }) { "\($0), \($1)" })
    }
}

extension CacheRequest {
    /// - Returns: nil for a request without a URL, and for one that says who sends it.
    init?(_ request: URLRequest, policy: CachePolicy) {
        guard let address = request.url?.absoluteString,
            request.allHTTPHeaderFields?.keys.contains(where: SecretClassifier.standard.contains) != true
        else { return nil }
        self.init(
            method: request.httpMethod ?? "GET", address: address,
            fields: (request.allHTTPHeaderFields ?? [:]).map { ($0.key, $0.value) }, policy: policy, partition: "",
            hasBody: request.httpBody != nil || request.httpBodyStream != nil)
    }
}
