import ConvoyCookies
import ConvoySecurity
import ConvoyTransport
import Foundation
import FoundationNetworking

/// Encodes the settings that are values, for storing them or sending them to another process.
///
/// Objects, and values with secrets of their own, are not encoded: the cache, the stores, the network thread, the retry
/// policy, the proxies, and the rest of ``connection``. Unless they were set to a custom store, cookies and credentials
/// are encoded as shared, private to each session, or off. ``httpAdditionalHeaders`` are encoded, so protect the
/// encoded form like them.
///
/// Missing values get their defaults, so that configurations of other versions can be decoded.
extension SessionConfiguration: Codable {
    private enum CodingKeys: String, CodingKey {
        case timeoutIntervalForRequest, timeoutIntervalForResource, httpAdditionalHeaders, requestCachePolicy
        case httpMaximumConnectionsPerHost, maximumConnections, waitsForConnectivity, allowsCellularAccess
        case securityPolicy, usesHTTP2, minimumTLSVersion, maximumTLSVersion, temporaryDirectory, cookies, credentials
        case networkServiceType, identity
    }

    /// Which sessions share a store.
    private enum StoreScope: String, Codable {
        case off = "nobody"
        case session
        case all
    }

    /// - Throws: The decoder's errors; `DecodingError.dataCorrupted` for a number that is out of range.
    public init(from decoder: any Decoder) throws {
        self.init()
        let values = try decoder.container(keyedBy: CodingKeys.self)
        func read<Value: Decodable>(_ key: CodingKeys, _ place: inout Value) throws {
            if let value = try values.decodeIfPresent(Value.self, forKey: key) { place = value }
        }
        func corrupted(_ key: CodingKeys, _ what: String) -> DecodingError {
            .dataCorruptedError(forKey: key, in: values, debugDescription: what)
        }
        timeoutIntervalForRequest = try values.decodeIfPresent(TimeInterval.self, forKey: .timeoutIntervalForRequest)
        // null stands for no limit.
        if values.contains(.timeoutIntervalForResource) {
            timeoutIntervalForResource = try values.decodeIfPresent(TimeInterval.self, forKey: .timeoutIntervalForResource)
        }
        for (key, time) in [
            (CodingKeys.timeoutIntervalForRequest, timeoutIntervalForRequest),
            (.timeoutIntervalForResource, timeoutIntervalForResource),
        ] {
            if let time, !(time >= 0) { throw corrupted(key, "A time is not negative.") }
        }
        try read(.httpAdditionalHeaders, &httpAdditionalHeaders)
        if let policy = try values.decodeIfPresent(UInt.self, forKey: .requestCachePolicy) {
            guard let policy = URLRequest.CachePolicy(rawValue: policy) else {
                throw corrupted(.requestCachePolicy, "There is no such cache policy.")
            }
            requestCachePolicy = policy
        }
        try read(.httpMaximumConnectionsPerHost, &httpMaximumConnectionsPerHost)
        try read(.maximumConnections, &maximumConnections)
        guard httpMaximumConnectionsPerHost >= 1 else {
            throw corrupted(.httpMaximumConnectionsPerHost, "It is at least 1.")
        }
        guard maximumConnections >= 1 else { throw corrupted(.maximumConnections, "It is at least 1.") }
        try read(.waitsForConnectivity, &waitsForConnectivity)
        try read(.allowsCellularAccess, &allowsCellularAccess)
        try read(.securityPolicy, &connection.securityPolicy)
        try read(.usesHTTP2, &connection.usesHTTP2)
        try read(.minimumTLSVersion, &connection.minimumTLSVersion)
        connection.maximumTLSVersion = try values.decodeIfPresent(TLSVersion.self, forKey: .maximumTLSVersion)
        try read(.temporaryDirectory, &temporaryDirectory)
        guard temporaryDirectory.isFileURL else { throw corrupted(.temporaryDirectory, "It is no file URL.") }
        switch try values.decodeIfPresent(StoreScope.self, forKey: .cookies) {
        case .off: cookies = .none
        case .session: cookies = .own
        case .all, nil: cookies = .store(.shared)
        }
        switch try values.decodeIfPresent(StoreScope.self, forKey: .credentials) {
        case .off: credentials = .none
        case .session, nil: credentials = .own
        case .all: credentials = .store(.shared)
        }
        if let type = try values.decodeIfPresent(String.self, forKey: .networkServiceType) {
            guard let type = NetworkServiceType.allCases.first(where: { "\($0)" == type }) else {
                throw corrupted(.networkServiceType, "There is no such type of traffic.")
            }
            networkServiceType = type
        }
        identity = try values.decodeIfPresent(String.self, forKey: .identity)
    }

    /// Encodes the settings that are values.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encodeIfPresent(timeoutIntervalForRequest, forKey: .timeoutIntervalForRequest)
        try values.encode(timeoutIntervalForResource, forKey: .timeoutIntervalForResource)
        try values.encode(httpAdditionalHeaders, forKey: .httpAdditionalHeaders)
        try values.encode(requestCachePolicy.rawValue, forKey: .requestCachePolicy)
        try values.encode(httpMaximumConnectionsPerHost, forKey: .httpMaximumConnectionsPerHost)
        try values.encode(maximumConnections, forKey: .maximumConnections)
        try values.encode(waitsForConnectivity, forKey: .waitsForConnectivity)
        try values.encode(allowsCellularAccess, forKey: .allowsCellularAccess)
        try values.encode(securityPolicy, forKey: .securityPolicy)
        try values.encode(usesHTTP2, forKey: .usesHTTP2)
        try values.encode(minimumTLSVersion, forKey: .minimumTLSVersion)
        try values.encodeIfPresent(maximumTLSVersion, forKey: .maximumTLSVersion)
        try values.encode(temporaryDirectory, forKey: .temporaryDirectory)
        let cookieScope: StoreScope =
            switch cookies {
            case .none: .off;
            case .own: .session;
            case .store: .all
            }
        let credentialScope: StoreScope =
            switch credentials {
            case .none: .off;
            case .own: .session;
            case .store: .all
            }
        try values.encode(cookieScope, forKey: .cookies)
        try values.encode(credentialScope, forKey: .credentials)
        try values.encode("\(networkServiceType)", forKey: .networkServiceType)
        try values.encodeIfPresent(identity, forKey: .identity)
    }
}
