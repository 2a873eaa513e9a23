/// How many cookies a store keeps (RFC 6265bis, sections 5.7 and 6.1).
public struct CookieLimits: Sendable, Hashable {
    /// How many cookies a site may have: a registrable domain with all hosts below it.
    public var cookiesPerSite: Int
    /// How many cookies there may be.
    public var cookies: Int
    /// How many bytes all names, values, domains and paths may have together.
    public var bytes: Int

    /// - Parameters:
    ///   - cookiesPerSite: by default 180, as in browsers; the RFC asks for 50 at least.
    ///   - cookies: by default 3300; the RFC asks for 3000 at least.
    ///   - bytes: by default 8 MiB.
    public init(cookiesPerSite: Int = 180, cookies: Int = 3300, bytes: Int = 8 << 20) {
        self.cookiesPerSite = max(1, cookiesPerSite)
        self.cookies = max(1, cookies)
        self.bytes = max(1, bytes)
    }
}
