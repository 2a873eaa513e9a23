import ConvoySupport

/// How a response came out of a cache (RFC 9111, section 4).
public enum CacheUse: String, Sendable, Hashable, CaseIterable {
    /// It was fresh.
    case fresh
    /// The server has said that it is still good.
    case validated
    /// It was stale, but not for longer than the request allows (`max-stale`).
    case maxStale
    /// It was stale, and the server is being asked for a new one meanwhile (RFC 5861, section 3).
    case staleWhileRevalidate
    /// It was stale, but the server could not be reached or had an error (RFC 5861, section 4).
    case staleIfError
    /// The request wanted what is stored, whatever its age (`URLRequest.CachePolicy.returnCacheDataElseLoad`,
    /// `.returnCacheDataDontLoad`).
    case ignoringAge

    init(_ use: StoredUse) {
        self =
            switch use {
            case .fresh: .fresh
            case .validated: .validated
            case .maxStale: .maxStale
            case .staleWhileRevalidate: .staleWhileRevalidate
            case .staleIfError: .staleIfError
            case .ignoringAge: .ignoringAge
            }
    }
}
