/// The state of a store, as a value: the cookies, and the changes that have not been written to the file.
struct CookieStoreState {
    var jar: CookieJar
    /// Whether session cookies are written to the file.
    let keepsSessionCookies: Bool
    /// The cookies to write, with the times of their changes. If a key is not in the jar, the cookie was removed.
    private var pending: [CookieKey: Int64] = [:]
    /// The cookies that are currently being written.
    private var inFlight: [CookieKey: Int64] = [:]
    private var sweeps: [CookieFile.Sweep] = []
    private var sweepsInFlight: [CookieFile.Sweep] = []
    /// The time at which any process last removed all cookies.
    private var cleared: Int64 = 0
    private var lastStamp: Int64 = 0
    /// Whether the store has a file.
    let hasFile: Bool
    var isScheduled = false
    var failure: CookieStoreError?

    init(limits: CookieLimits, hasFile: Bool, keepsSessionCookies: Bool) {
        jar = CookieJar(limits: limits)
        self.hasFile = hasFile
        self.keepsSessionCookies = keepsSessionCookies
    }

    /// Returns a time for a change that is later than all known changes by any process, even if the clock was set back.
    mutating func stamp(_ now: Int64) -> Int64 {
        lastStamp = min(max(now, lastStamp + 1), CookieTime.latestChange)
        return lastStamp
    }

    /// Returns whether a write must be scheduled, and if so marks it as scheduled.
    mutating func schedule() -> Bool {
        guard hasFile, !isScheduled, !pending.isEmpty || !sweeps.isEmpty else { return false }
        isScheduled = true
        return true
    }

    // MARK: Changes in this process

    /// - Parameter keepsCreation: Whether to keep the cookie's creation time, instead of setting it to the current
    ///   time.
    /// - Returns: Whether the cookies have changed.
    mutating func insert(
        _ cookie: Cookie, isOverTLS: Bool, keepsCreation: Bool, at now: Int64
    ) throws(CookieRefusal) -> Bool {
        var cookie = cookie
        let key = CookieKey(cookie)
        let stamp = max(stamp(now), min(known(key), CookieTime.latestChange - 1) + 1)
        // Use the time of the change, which orders simultaneous cookies, unless it is ahead of the clock.
        if !keepsCreation { cookie.creationTime = stamp - now < CookieTime.second ? stamp : now }
        let change = try jar.insert(cookie, isOverTLS: isOverTLS, changed: stamp, at: now)
        guard change.isStored || change.hasReplaced || !change.evicted.isEmpty else { return false }
        note([key] + change.evicted, stamp)
        return true
    }

    mutating func remove(_ key: CookieKey, at now: Int64) -> Bool {
        let stamp = max(stamp(now), min(known(key), CookieTime.latestChange - 1) + 1)
        guard jar.remove(key) != nil else { return false }
        note([key], stamp)
        return true
    }

    mutating func removeAll(at now: Int64) -> Bool {
        let isChanged = jar.count > 0
        // The time must be later than any change in the file or in flight, even if the clock was set back, so that no
        // cookie survives.
        let latest = max(jar.all.map(\.changed).max() ?? 0, inFlight.values.max() ?? 0)
        jar = CookieJar(limits: jar.limits)
        guard hasFile else { return isChanged }
        pending = [:]
        let time = max(stamp(now), latest)
        cleared = time
        lastStamp = max(lastStamp, time)
        sweeps = [.all(at: time)]
        return isChanged
    }

    mutating func removeCookies(createdSince start: Int64, at now: Int64) -> Bool {
        sweep(.createdSince(start, at: stamp(now)), now) { $0.cookie.creationTime >= start }
    }

    mutating func endSession(at now: Int64) -> Bool {
        sweep(keepsSessionCookies ? .session(at: stamp(now)) : nil, now) { $0.cookie.expiryTime == nil }
    }

    private mutating func sweep(
        _ sweep: CookieFile.Sweep?, _ now: Int64, where isRemoved: (CookieJar.Entry) -> Bool
    ) -> Bool {
        let removed = jar.removeAll(where: isRemoved)
        if hasFile, let sweep { sweeps.append(sweep) }
        if keepsSessionCookies || sweep != nil { note(removed, stamp(now)) }
        return !removed.isEmpty
    }

    private mutating func note(_ keys: [CookieKey], _ stamp: Int64) {
        guard hasFile else { return }
        for key in keys { pending[key] = max(stamp, pending[key] ?? 0) }
    }

    /// Returns the time of the last known change to the cookie with a key.
    private func known(_ key: CookieKey) -> Int64 {
        max(pending[key] ?? 0, inFlight[key] ?? 0, jar.entry(key)?.changed ?? 0)
    }

    // MARK: The file

    /// Returns the changes to write, which are in flight until `finishWriting`.
    mutating func startWriting() -> CookieFile.Batch {
        isScheduled = false
        inFlight = pending
        sweepsInFlight = sweeps
        pending = [:]
        sweeps = []
        let rows = inFlight.map { key, changed in
            let entry = jar.entry(key).flatMap { keepsSessionCookies || $0.cookie.expiryTime != nil ? $0 : nil }
            return CookieFile.Row(key: key, entry: entry, changed: changed)
        }
        return CookieFile.Batch(sweeps: sweepsInFlight, rows: rows)
    }

    /// - Parameter isWritten: Whether the write succeeded. If not, its changes become pending again.
    mutating func finishWriting(isWritten: Bool) {
        if !isWritten {
            pending.merge(inFlight) { max($0, $1) }
            sweeps = sweepsInFlight + sweeps
        }
        inFlight = [:]
        sweepsInFlight = []
    }

    /// Marks all cookies as pending, for a new file.
    mutating func startAnew() {
        sweeps = []
        // A new file needs no tombstones.
        pending = [:]
        for entry in jar.all where keepsSessionCookies || entry.cookie.expiryTime != nil {
            pending[CookieKey(entry.cookie)] = entry.changed
        }
    }

    /// Applies a row written by another process, unless this store has a newer change.
    ///
    /// - Returns: Whether the cookies have changed.
    mutating func merge(_ row: CookieFile.Row, at now: Int64) -> Bool {
        lastStamp = max(lastStamp, row.changed)
        guard row.changed > known(row.key), row.changed > cleared else { return false }
        guard let entry = row.entry else {
            // A session cookie that is not in the file is private to this process. The row reports that the file's
            // cookie with this key has been removed, for example because another process received a session cookie
            // instead.
            if !keepsSessionCookies, let own = jar.entry(row.key), own.cookie.expiryTime == nil { return false }
            return jar.remove(row.key) != nil
        }
        guard let cookie = try? CookieRules.cookie(entry.cookie, for: nil, at: now), CookieKey(cookie) == row.key
        else { return false }
        let evicted = jar.restore(CookieJar.Entry(cookie: cookie, changed: row.changed), at: now)
        if !evicted.isEmpty { note(evicted, max(stamp(now), row.changed)) }
        return true
    }

    /// Applies the removal of all cookies by another process.
    mutating func merge(cleared time: Int64) -> Bool {
        lastStamp = max(lastStamp, time)
        guard time > cleared else { return false }
        cleared = time
        let keepsSessionCookies = keepsSessionCookies
        let removed = jar.removeAll {
            $0.changed <= time && (keepsSessionCookies || $0.cookie.expiryTime != nil)
        }
        pending = pending.filter { $0.value > time }
        return !removed.isEmpty
    }
}
