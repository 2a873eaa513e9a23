import ConvoySupport

/// The cookies of a store, as a value (RFC 6265bis, sections 5.7 and 5.8).
///
/// Cookies are stored by domain, so that cookies of other hosts cost nothing, and counted by site, so that a server
/// with many cookies does not evict those of others.
struct CookieJar {
    /// A cookie, and the time of its last change, in microseconds since 1970.
    struct Entry {
        var cookie: Cookie
        var changed: Int64

        var size: Int {
            cookie.nameBytes.count + cookie.valueBytes.count + cookie.domain.utf8.count + cookie.path.utf8.count
        }
    }

    private struct Site {
        var count = 0
        var bytes = 0
        /// The number of cookies for each domain of the site.
        var domains: [String: Int] = [:]
    }

    let limits: CookieLimits
    private var entries: [String: [Entry]] = [:]
    private var sites: [String: Site] = [:]
    private(set) var count = 0
    private var bytes = 0
    /// A lower bound for all expiry times, before which a full jar need not be searched for expired cookies.
    private var nextExpiry = Int64.max

    init(limits: CookieLimits = CookieLimits()) { self.limits = limits }

    // MARK: Finding

    /// All entries, in no particular order.
    var all: [Entry] { entries.values.flatMap { $0 } }

    func entry(_ key: CookieKey) -> Entry? { entries[key.domain]?.first { $0.cookie.has(key) } }

    /// Returns the cookies for a request: those with longer paths first, then older ones. Updates the time of their
    /// last use.
    mutating func cookies(for request: CookieRequest, at now: Int64) -> [Cookie] {
        var found: [Cookie] = []
        let place = request.place
        collect(place.host, request, now, isHost: true, into: &found)
        if !HostName.isAddress(place.host) {
            var rest = place.host.utf8[...]
            while let dot = rest.firstIndex(of: UInt8(ascii: ".")) {
                rest = rest[rest.index(after: dot)...]
                guard let domain = String(rest) else { break }
                collect(domain, request, now, isHost: false, into: &found)
            }
        }
        if found.count > 1 {
            found.sort { one, other in
                let (length, otherLength) = (one.path.utf8.count, other.path.utf8.count)
                return length == otherLength ? one.creationTime < other.creationTime : length > otherLength
            }
        }
        return found
    }

    private mutating func collect(
        _ domain: String, _ request: CookieRequest, _ now: Int64, isHost: Bool, into found: inout [Cookie]
    ) {
        guard let index = entries.index(forKey: domain) else { return }
        for position in entries.values[index].indices {
            let cookie = entries.values[index][position].cookie
            guard isHost || !cookie.isHostOnly, !cookie.isSecure || request.place.isSecure, !cookie.isExpired(at: now),
                request.allows(cookie.sameSite), CookiePath.matches(request.place.path, cookie.path)
            else { continue }
            entries.values[index][position].cookie.accessTime = now
            found.append(cookie)
        }
    }

    // MARK: Changing

    /// The result of an insertion.
    struct Change {
        /// Whether the cookie is stored. An expired cookie only removes the one it replaces.
        var isStored = false
        /// Whether the cookie replaced an existing one.
        var hasReplaced = false
        /// The cookies that were evicted because the limits were exceeded.
        var evicted: [CookieKey] = []
    }

    /// Stores a cookie that the rules have accepted. A cookie that replaces another one keeps the creation time of that
    /// cookie.
    ///
    /// - Parameters:
    ///   - isOverTLS: Whether the cookie may replace or hide `Secure` cookies.
    ///   - changed: The time of the change.
    mutating func insert(
        _ cookie: Cookie, isOverTLS: Bool, changed: Int64, at now: Int64
    ) throws(CookieRefusal) -> Change {
        if !isOverTLS, !cookie.isSecure, hidesSecure(cookie) { throw .hidesSecure }
        var cookie = cookie
        var change = Change()
        if let old = remove(CookieKey(cookie)) {
            change.hasReplaced = true
            cookie.creationTime = old.cookie.creationTime
        }
        guard !cookie.isExpired(at: now) else { return change }
        add(Entry(cookie: cookie, changed: changed))
        change.isStored = true
        if isOverLimit(site: PublicSuffixes.site(of: cookie.domain)) {
            change.evicted = enforceLimits(PublicSuffixes.site(of: cookie.domain), at: now)
            change.isStored = !change.evicted.contains(CookieKey(cookie))
        }
        return change
    }

    /// Stores an entry unchanged, including its times.
    mutating func restore(_ entry: Entry, at now: Int64) -> [CookieKey] {
        remove(CookieKey(entry.cookie))
        guard !entry.cookie.isExpired(at: now) else { return [] }
        add(entry)
        let site = PublicSuffixes.site(of: entry.cookie.domain)
        return isOverLimit(site: site) ? enforceLimits(site, at: now) : []
    }

    /// Returns whether a server could mistake the cookie for a `Secure` one ("leave secure cookies alone").
    private func hidesSecure(_ cookie: Cookie) -> Bool {
        guard let site = sites[PublicSuffixes.site(of: cookie.domain)] else { return false }
        for domain in site.domains.keys
        where HostName.isName(domain, equalToOrBelow: cookie.domain)
            || HostName.isName(cookie.domain, equalToOrBelow: domain)
        {
            for entry in entries[domain] ?? [] where entry.cookie.isSecure && entry.cookie.nameBytes == cookie.nameBytes {
                if CookiePath.matches(cookie.path, entry.cookie.path) { return true }
            }
        }
        return false
    }

    private mutating func add(_ entry: Entry) {
        let domain = entry.cookie.domain
        entries[domain, default: []].append(entry)
        count += 1
        bytes += entry.size
        nextExpiry = min(nextExpiry, entry.cookie.expiryTime ?? .max)
        let name = PublicSuffixes.site(of: domain)
        var site = sites.removeValue(forKey: name) ?? Site()
        site.count += 1
        site.bytes += entry.size
        site.domains[domain, default: 0] += 1
        sites[name] = site
    }

    @discardableResult
    mutating func remove(_ key: CookieKey) -> Entry? {
        guard let position = entries[key.domain]?.firstIndex(where: { $0.cookie.has(key) }),
            let entry = entries[key.domain]?.remove(at: position)
        else { return nil }
        if entries[key.domain]?.isEmpty == true { entries[key.domain] = nil }
        count -= 1
        bytes -= entry.size
        let name = PublicSuffixes.site(of: key.domain)
        guard var site = sites.removeValue(forKey: name) else { return entry }
        site.count -= 1
        site.bytes -= entry.size
        let left = (site.domains[key.domain] ?? 1) - 1
        site.domains[key.domain] = left > 0 ? left : nil
        if site.count > 0 { sites[name] = site }
        return entry
    }

    /// Removes the entries that satisfy the predicate, and returns their keys.
    mutating func removeAll(where isRemoved: (Entry) -> Bool) -> [CookieKey] {
        let keys = all.filter(isRemoved).map { CookieKey($0.cookie) }
        for key in keys { remove(key) }
        return keys
    }

    // MARK: Limits

    private func isOverLimit(site: String) -> Bool {
        count > limits.cookies || bytes > limits.bytes || (sites[site]?.count ?? 0) > limits.cookiesPerSite
    }

    private mutating func enforceLimits(_ name: String, at now: Int64) -> [CookieKey] {
        var evicted: [CookieKey] = []
        while let site = sites[name], site.count > limits.cookiesPerSite, let key = evictOne(of: site, at: now) {
            evicted.append(key)
        }
        if count > limits.cookies || bytes > limits.bytes, nextExpiry <= now {
            evicted += removeAll { $0.cookie.isExpired(at: now) }
            nextExpiry = all.compactMap(\.cookie.expiryTime).min() ?? .max
        }
        while count > limits.cookies || bytes > limits.bytes {
            // Evict from the site with the most cookies, or with the most bytes if the byte limit is exceeded.
            let byCount = count > limits.cookies
            let largest = sites.max { one, other in
                byCount ? one.value.count < other.value.count : one.value.bytes < other.value.bytes
            }
            guard let largest, let key = evictOne(of: largest.value, at: now) else { break }
            evicted.append(key)
        }
        return evicted
    }

    /// Evicts a cookie of a site: preferably an expired one, then one that is not `Secure`, then any. Among several,
    /// the least recently used one is evicted.
    private mutating func evictOne(of site: Site, at now: Int64) -> CookieKey? {
        var worst: (rank: Int, cookie: Cookie)?
        for domain in site.domains.keys {
            for entry in entries[domain] ?? [] {
                let rank = entry.cookie.isExpired(at: now) ? 0 : entry.cookie.isSecure ? 2 : 1
                guard let found = worst else {
                    worst = (rank, entry.cookie)
                    continue
                }
                if (rank, entry.cookie.accessTime) < (found.rank, found.cookie.accessTime) { worst = (rank, entry.cookie) }
            }
        }
        guard let worst else { return nil }
        let key = CookieKey(worst.cookie)
        remove(key)
        return key
    }
}

/// Limits on the cookies in a store (RFC 6265bis, sections 5.7 and 6.1).
public struct CookieLimits: Sendable, Hashable {
    /// The maximum number of cookies per site. A site is a registrable domain with its subdomains.
    public var cookiesPerSite: Int
    /// The maximum number of cookies.
    public var cookies: Int
    /// The maximum total size of names, values, domains and paths, in bytes.
    public var bytes: Int

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - cookiesPerSite: 180 by default, as in browsers. The RFC requires at least 50.
    ///   - cookies: 3300 by default. The RFC requires at least 3000.
    ///   - bytes: 8 MiB by default.
    public init(cookiesPerSite: Int = 180, cookies: Int = 3300, bytes: Int = 8 << 20) {
        self.cookiesPerSite = max(1, cookiesPerSite)
        self.cookies = max(1, cookies)
        self.bytes = max(1, bytes)
    }
}
