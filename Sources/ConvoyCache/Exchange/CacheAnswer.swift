/// What the cache says before a request is sent.
package enum CacheAnswer: Sendable {
    /// Nothing usable is stored: send the request as it is.
    case miss
    /// Serve what is stored, and send nothing. If it `revalidates`, it is stale within `stale-while-revalidate`: start a
    /// second exchange for the same request with the policy `reloadRevalidating` in the background. Only one of many
    /// requests is told so.
    case hit(StoredResponse, revalidates: Bool)
    /// Send the request with these fields in addition, which ask the origin whether the stored response is still valid.
    /// The exchange keeps it until it is confirmed or replaced.
    case validate(fields: [(name: String, value: String)])
    /// The request forbids to ask the network, and nothing usable is stored.
    case unavailable(CacheUnavailable)
}

/// Why a request that may not use the network has no response.
package enum CacheUnavailable: Sendable, Hashable {
    /// No response to it is stored.
    case notStored
    /// The stored response is too old for the request's `Cache-Control`.
    case stale
}

/// What the cache says to the head of a response from the network.
package enum CacheReaction: Sendable {
    /// Deliver it; nothing is stored.
    case pass
    /// Deliver it, and give the raw bytes of the body, before content decoding, to the writer as well.
    case store(CacheWriter)
    /// Drop the body of the network's response and deliver this one: the origin has confirmed it, or has failed and a
    /// stale one may be used in its place.
    case serveStored(StoredResponse)
}
