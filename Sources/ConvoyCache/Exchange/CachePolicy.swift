/// How a request wants stored responses to be used: the policies of `URLRequest`.
package enum CachePolicy: Sendable, Hashable {
    /// As RFC 9111 says (`useProtocolCachePolicy`).
    case protocolPolicy
    /// Stored responses are not used, and the new one takes their place (`reloadIgnoringLocalCacheData`).
    case reload
    /// A stored response is used only if the origin confirms it (`reloadRevalidatingCacheData`).
    case reloadRevalidating
    /// A stored response is used whatever its age; the network is asked where there is none
    /// (`returnCacheDataElseLoad`).
    case storedElseLoad
    /// A stored response is used whatever its age; the network is never asked (`returnCacheDataDontLoad`).
    case storedOnly
}
