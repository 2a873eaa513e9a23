/// How a response came out of a cache (RFC 9111, section 4).
package enum StoredUse: String, Sendable, Hashable {
    /// It was fresh.
    case fresh
    /// The server has said that it is still good.
    case validated
    /// It was stale, but not for longer than the request allows (`max-stale`).
    case maxStale
    /// It was stale, and is being asked for anew meanwhile (RFC 5861, section 3).
    case staleWhileRevalidate
    /// It was stale, but the server could not be reached or had an error (RFC 5861, section 4).
    case staleIfError
    /// The request wanted what is stored, whatever its age.
    case ignoringAge
}
