/// How fast a transfer may be, and how slow.
extension ConnectionConfiguration {
    /// The limits of how many bytes of responses' bodies come in a second; none by default. All of them hold, and
    /// `RateLimit.shared` besides.
    ///
    /// Two configurations are equal only if they have the same objects.
    public var receiveRateLimits: [RateLimit] {
        get { limits.limits.receiving }
        set { limits.limits.receiving = newValue }
    }

    /// The limits of how many bytes of requests' bodies are sent in a second; none by default. All of them hold, and
    /// `RateLimit.sharedForSending` besides.
    public var sendRateLimits: [RateLimit] {
        get { limits.limits.sending }
        set { limits.limits.sending = newValue }
    }

    /// How slow a transfer may be, before it fails with `URLError.timedOut`; nil, the default, for no such limit.
    public var stallLimit: StallLimit? {
        get { limits.limits.stall }
        set { limits.limits.stall = newValue }
    }
}
