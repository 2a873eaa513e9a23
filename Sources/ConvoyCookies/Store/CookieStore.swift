import ConvoyDatabase
import ConvoySupport
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Keeps cookies and decides which requests get them (RFC 6265bis).
///
/// One store can serve any number of managers, and its methods can be called from any thread. None of them waits for a
/// disk, except those that say so.
///
/// A store with a file writes it a moment after a change, on a queue of its own. Several processes can share the file:
/// of two changes to the same cookie the later one counts, whichever process made it. What others have changed is taken
/// over when the file is opened or written, and about once a second while cookies are asked for; the request that asks
/// does not wait for that.
///
/// Cookies from a response that another site has caused are judged like any other: where a request came from is known
/// when cookies are sent, not when they arrive.
public final class CookieStore: Sendable {
    /// A store for the whole process, in memory only.
    public static let shared = CookieStore()

    let state: Locked<CookieStoreState>
    private let handler = Locked<Acceptance?>(nil)

    /// A closure that is stored as such would be wrapped once more each time that it is read.
    private struct Acceptance { let call: @Sendable (Cookie, URL) -> Bool }
    private let hasHandler = Atomic<Bool>(false)
    private let isEmptyNow = Atomic<Bool>(true)
    private let changes = Atomic<UInt64>(0)
    let now: @Sendable () -> Int64

    /// As many as a site may have, as a response sets only those of its site; curl looks at 50.
    package let fieldLimit: Int

    /// Nil for a store in memory.
    private let writer: CookieWriter?

    /// What tells the store from others: the file, or else a number that no other store has.
    package let identity: String

    /// An empty store, whose cookies end with it.
    public convenience init(limits: CookieLimits = CookieLimits()) {
        self.init(limits, file: nil, keepsSessionCookies: false)
    }

    /// A store with the cookies of a file, in which it keeps them: an SQLite database.
    ///
    /// Opening the file blocks. What is made has the mode 0600: the file, and beside it others whose names end in
    /// `-wal`, `-shm` and `.lock`. A file that is damaged is renamed to `.damaged`, and a new one takes its place. One that
    /// is another user's, or that others can write to, is refused.
    ///
    /// - Parameters:
    ///   - file: where; it need not be there, but its directory must be.
    ///   - keepsSessionCookies: whether cookies without an end are kept in the file, too, until ``endSession()``.
    ///   - limits: how many cookies are kept.
    /// - Throws: `CookieStoreError` for a file that cannot be opened, or is of another kind. It is left as it is.
    public convenience init(
        file: URL, keepsSessionCookies: Bool = false, limits: CookieLimits = CookieLimits()
    ) throws(CookieStoreError) {
        self.init(limits, file: file.path, keepsSessionCookies: keepsSessionCookies)
        if let failure = writer?.open(self) { throw failure }
    }

    init(
        _ limits: CookieLimits, file: String?, keepsSessionCookies: Bool,
        now: @escaping @Sendable () -> Int64 = CookieTime.now
    ) {
        state = Locked(
            CookieStoreState(limits: limits, hasFile: file != nil, keepsSessionCookies: keepsSessionCookies))
        self.now = now
        fieldLimit = max(50, limits.cookiesPerSite)
        writer = file.map { CookieWriter(path: $0) }
        identity = file.map { "file \(Self.resolved($0))" } ?? "memory \(UInt64.random(in: .min ... .max))"
    }

    /// The path without links, so that a file has one name. The file itself need not be there.
    private static func resolved(_ path: String) -> String {
        func real(_ path: String) -> String? {
            guard let resolved = realpath(path, nil) else { return nil }
            defer { free(resolved) }
            return String(cString: resolved)
        }
        let url = URL(fileURLWithPath: path)
        return real(path) ?? real(url.deletingLastPathComponent().path).map { "\($0)/\(url.lastPathComponent)" } ?? path
    }

    /// Changes the cookies under the lock, and lets the file follow.
    ///
    /// - Parameter body: returns whether the cookies are others than before.
    @discardableResult
    func change(_ body: (inout CookieStoreState) -> Bool) -> Bool {
        let (isChanged, isDue) = state.withLock { state in
            let isChanged = body(&state)
            if isChanged {
                isEmptyNow.store(state.jar.count == 0, ordering: .releasing)
                changes.wrappingAdd(1, ordering: .releasing)
            }
            return (isChanged, state.schedule())
        }
        if isDue { writer?.writeLater(self) }
        return isChanged
    }

    // MARK: Reading

    /// All cookies that have not expired, the oldest first.
    public var cookies: [Cookie] {
        let now = now()
        writer?.lookForNews(self)
        let all = state.withLock { $0.jar.all.map(\.cookie).filter { !$0.isExpired(at: now) } }
        return all.sorted { $0.creationTime < $1.creationTime }
    }

    /// The same as Foundation's values, without those that Foundation has no value for.
    public var httpCookies: [HTTPCookie] { cookies.compactMap(\.httpCookie) }

    /// The cookies that a request for a URL gets, in the order in which they are sent. They count as used.
    public func cookies(for url: URL) -> [Cookie] {
        guard let place = CookiePlace(url) else { return [] }
        return cookies(for: CookieRequest(place: place, site: nil, isSafeMethod: true))
    }

    func cookies(for request: CookieRequest) -> [Cookie] {
        writer?.lookForNews(self)
        guard !isEmptyNow.load(ordering: .acquiring), !request.place.host.isEmpty else { return [] }
        let now = now()
        return state.withLock { $0.jar.cookies(for: request, at: now) }
    }

    /// Whether there are no cookies. Takes no lock.
    package var isEmpty: Bool {
        // Otherwise a store without cookies would never find out that another process has some.
        writer?.lookForNews(self)
        return isEmptyNow.load(ordering: .acquiring)
    }

    /// A number that rises with each change. Takes no lock.
    package var revision: UInt64 { changes.load(ordering: .acquiring) }

    // MARK: Setting

    /// Stores a cookie. The ``acceptanceHandler`` is not asked.
    ///
    /// - Parameters:
    ///   - cookie: one that replaces another, by its name, domain and path, keeps the other's time of creation; one that
    ///     has expired removes it.
    ///   - url: whose response it shall count as part of; nil to judge the cookie by itself.
    /// - Returns: false for a cookie that the rules do not allow: with characters that would end it, with more than 4096
    ///   bytes, for a public suffix, `SameSite=None` without `Secure`, against a promise of its name's prefix
    ///   (`__Host-`, `__Secure-`), or one that the URL's host may not set.
    @discardableResult
    public func setCookie(_ cookie: Cookie, for url: URL? = nil) -> Bool {
        let place = url.flatMap { CookiePlace($0) }
        if url != nil, place == nil { return false }
        return (try? store(cookie, for: place)) != nil
    }

    /// Stores the cookie of a Foundation value.
    @discardableResult
    public func setCookie(_ cookie: HTTPCookie, for url: URL? = nil) -> Bool {
        setCookie(Cookie(cookie), for: url)
    }

    private func store(_ cookie: Cookie, for place: CookiePlace?) throws(CookieRefusal) {
        let now = now()
        let judged = try CookieRules.cookie(cookie, for: place, at: now)
        var refusal: CookieRefusal?
        change { state in
            do throws(CookieRefusal) {
                return try state.insert(judged, isOverTLS: place?.isSecure ?? true, keepsCreation: true, at: now)
            } catch {
                refusal = error
                return false
            }
        }
        if let refusal { throw refusal }
    }

    /// Stores what the `Set-Cookie` fields of a response say. The ``acceptanceHandler`` is called on this thread.
    ///
    /// - Parameters:
    ///   - values: of the fields, each with one cookie, in their order.
    ///   - url: of the response.
    public func setCookies(_ values: [String], from url: URL) {
        guard let place = CookiePlace(url) else { return }
        takeAsking(values.map { Array($0.utf8) }, from: place, url: url)
    }

    /// Decides whether a cookie of a response is stored, after the rules have allowed it. It gets the cookie and the URL
    /// of the response, and is called on a queue of the library, one cookie at a time for each response. Nil to accept
    /// all.
    public var acceptanceHandler: (@Sendable (Cookie, URL) -> Bool)? {
        get { handler.withLock { $0 }?.call }
        set {
            // What the old one holds may be a user's object, and must not be released under the lock.
            let new = newValue.map(Acceptance.init(call:))
            let old = handler.withLock { handler in
                hasHandler.store(new != nil, ordering: .releasing)
                defer { handler = new }
                return handler
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Whether there is an acceptance handler. Takes no lock.
    package var asksBeforeAccepting: Bool { hasHandler.load(ordering: .acquiring) }

    // MARK: Removing

    /// Removes the cookie of this name, domain and path.
    public func remove(_ cookie: Cookie) {
        let (key, now) = (CookieKey(cookie), now())
        change { $0.remove(key, at: now) }
    }

    /// Removes all cookies: of the file, too, and those that other processes have set until now.
    public func removeAll() {
        let now = now()
        change { $0.removeAll(at: now) }
    }

    /// Removes the cookies that were created at this time or later.
    public func removeCookies(since date: Date) {
        let (start, now) = (CookieTime.microseconds(date), now())
        change { $0.removeCookies(createdSince: start, at: now) }
    }

    /// Removes the session cookies: those without an end.
    public func endSession() {
        let now = now()
        change { $0.endSession(at: now) }
    }

    // MARK: The file

    /// Why the file could not be written the last time; nil if it could, or if there is none. What it lacks is written
    /// with the next change.
    public var failure: CookieStoreError? { state.withLock { $0.failure } }

    /// Writes what is not in the file yet, and takes over what other processes have changed. Blocks; of no effect
    /// without a file.
    public func flush() throws(CookieStoreError) {
        if let failure = writer?.flush(self) { throw failure }
    }
}

extension CookieStore: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
