import ConvoyDatabase
import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

#if canImport(FoundationNetworking)
#endif

/// A store of cookies, which selects those to send with a request (RFC 6265bis).
///
/// Any number of managers can share a store. Its methods can be called from any thread and do not wait for the disk,
/// unless their documentation says otherwise.
///
/// A store with a file writes changes after a short delay, on a dedicated queue. Several processes can share the file.
/// If two changes affect the same cookie, the later one wins, regardless of which process made it. The store reads the
/// changes of other processes when it opens or writes the file, and about once per second while requests look up
/// cookies, without making them wait.
///
/// Cookies in responses to cross-site requests are treated like any others. Whether a request is cross-site matters
/// only when cookies are sent.
public final class CookieStore: Sendable {
    /// A store for the entire process, in memory only.
    public static let shared = CookieStore()

    let state: Locked<CookieStoreState>
    private let handler = Locked<Acceptance?>(nil)

    /// A box for the handler, because reading a stored closure through the lock would wrap it again each time.
    private struct Acceptance { let call: @Sendable (Cookie, URL) -> Bool }
    private let hasHandler = Atomic<Bool>(false)
    private let isEmptyNow = Atomic<Bool>(true)
    private let changes = Atomic<UInt64>(0)
    let now: @Sendable () -> Int64

    /// The maximum number of fields to read from a response, which is the number of cookies that a site may have.
    package let fieldLimit: Int

    /// The writer; nil for an in-memory store.
    private let writer: CookieWriter?

    /// The identity of the store: the file, or a unique number.
    package let identity: String

    /// Creates an empty in-memory store.
    public convenience init(limits: CookieLimits = CookieLimits()) {
        self.init(limits, file: nil, keepsSessionCookies: false)
    }

    /// Opens a store that keeps its cookies in a file, an SQLite database.
    ///
    /// Blocks. New files have the mode 0600: the database, and files next to it with the suffixes `-wal`, `-shm` and
    /// `.lock`. A damaged file is renamed to `.damaged` and replaced by a new one. A file that belongs to another user,
    /// or that others can write to, is rejected.
    ///
    /// - Parameters:
    ///   - file: The file, which is created if it is missing. Its directory must exist.
    ///   - keepsSessionCookies: Whether the file also keeps session cookies, until ``endSession()``. If false, session
    ///     cookies are private to this store: other stores with the same file neither see nor remove them.
    ///   - limits: The limits on the number and size of cookies.
    /// - Throws: `CookieStoreError` if the file cannot be opened or has a different format. The file is not changed.
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

    /// Returns the path without symbolic links, so that each file has a unique name. The file itself need not exist.
    private static func resolved(_ path: String) -> String {
        func real(_ path: String) -> String? {
            guard let resolved = realpath(path, nil) else { return nil }
            defer { free(resolved) }
            return String(cString: resolved)
        }
        let url = URL(fileURLWithPath: path)
        return real(path) ?? real(url.deletingLastPathComponent().path).map { "\($0)/\(url.lastPathComponent)" } ?? path
    }

    /// Changes the cookies while holding the lock, and schedules writing the file.
    ///
    /// - Parameter body: Returns whether it has changed the cookies.
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

    /// All cookies that have not expired, oldest first.
    public var cookies: [Cookie] {
        let now = now()
        writer?.checkForChanges(self)
        let all = state.withLock { $0.jar.all.map(\.cookie).filter { !$0.isExpired(at: now) } }
        return all.sorted { $0.creationTime < $1.creationTime }
    }

    /// The ``cookies`` as Foundation values, without those that Foundation rejects.
    public var httpCookies: [HTTPCookie] { cookies.compactMap(\.httpCookie) }

    /// Returns the cookies to send with a request for a URL, in order. Updates the time of their last use.
    public func cookies(for url: URL) -> [Cookie] {
        guard let place = CookiePlace(url) else { return [] }
        return cookies(for: CookieRequest(place: place, site: nil, isSafeMethod: true))
    }

    func cookies(for request: CookieRequest) -> [Cookie] {
        writer?.checkForChanges(self)
        guard !isEmptyNow.load(ordering: .acquiring), !request.place.host.isEmpty else { return [] }
        let now = now()
        return state.withLock { $0.jar.cookies(for: request, at: now) }
    }

    /// Whether the store is empty. Takes no lock.
    package var isEmpty: Bool {
        // Without this check, an empty store would never read the cookies of another process.
        writer?.checkForChanges(self)
        return isEmptyNow.load(ordering: .acquiring)
    }

    /// A number that increases with each change. Takes no lock.
    package var revision: UInt64 { changes.load(ordering: .acquiring) }

    // MARK: Setting

    /// Stores a cookie, without calling the ``acceptanceHandler``.
    ///
    /// - Parameters:
    ///   - cookie: The cookie. It replaces a cookie with the same name, domain and path, and keeps that cookie's
    ///     creation time. An expired cookie only removes it.
    ///   - url: The URL of the response that the cookie is attributed to; nil to check the cookie on its own.
    /// - Returns: False if the rules reject the cookie: because it contains characters that would end it, exceeds 4096
    ///   bytes, is for a public suffix, is `SameSite=None` without `Secure`, violates its name prefix (`__Host-`,
    ///   `__Secure-`), or is for a domain that the URL's host may not set.
    @discardableResult
    public func setCookie(_ cookie: Cookie, for url: URL? = nil) -> Bool {
        let place = url.flatMap { CookiePlace($0) }
        if url != nil, place == nil { return false }
        return (try? store(cookie, for: place)) != nil
    }

    /// Stores a Foundation cookie.
    @discardableResult
    public func setCookie(_ cookie: HTTPCookie, for url: URL? = nil) -> Bool {
        setCookie(Cookie(cookie), for: url)
    }

    private func store(_ cookie: Cookie, for place: CookiePlace?) throws(CookieRefusal) {
        let now = now()
        let checked = try CookieRules.cookie(cookie, for: place, at: now)
        var refusal: CookieRefusal?
        change { state in
            do throws(CookieRefusal) {
                return try state.insert(checked, isOverTLS: place?.isSecure ?? true, keepsCreation: true, at: now)
            } catch {
                refusal = error
                return false
            }
        }
        if let refusal { throw refusal }
    }

    /// Stores the cookies in a response. Calls the ``acceptanceHandler`` on this thread.
    ///
    /// - Parameters:
    ///   - values: The values of the `Set-Cookie` fields, in order. Each contains one cookie.
    ///   - url: The URL of the response.
    public func setCookies(_ values: [String], from url: URL) {
        guard let place = CookiePlace(url) else { return }
        takeAsking(values.map { Array($0.utf8) }, from: place, url: url)
    }

    /// The handler that decides whether a cookie in a response is stored, after the rules have accepted it; nil accepts
    /// all cookies. It receives the cookie and the URL of the response, and is called on a queue of the library,
    /// serially for the cookies of a response.
    public var acceptanceHandler: (@Sendable (Cookie, URL) -> Bool)? {
        get { handler.withLock { $0 }?.call }
        set {
            // The old closure may own user objects, which must not be released under the lock.
            let new = newValue.map(Acceptance.init(call:))
            let old = handler.withLock { handler in
                hasHandler.store(new != nil, ordering: .releasing)
                defer { handler = new }
                return handler
            }
            withExtendedLifetime(old) {}
        }
    }

    /// Whether an acceptance handler is set. Takes no lock.
    package var asksBeforeAccepting: Bool { hasHandler.load(ordering: .acquiring) }

    // MARK: Removing

    /// Removes the cookie with the same name, domain and path.
    public func remove(_ cookie: Cookie) {
        let (key, now) = (CookieKey(cookie), now())
        change { $0.remove(key, at: now) }
    }

    /// Removes all cookies, including those in the file and those that other processes have set so far.
    public func removeAll() {
        let now = now()
        change { $0.removeAll(at: now) }
    }

    /// Removes the cookies that were created at or after a time.
    public func removeCookies(since date: Date) {
        let (start, now) = (CookieTime.microseconds(date), now())
        change { $0.removeCookies(createdSince: start, at: now) }
    }

    /// Removes all session cookies, which have no expiry time.
    public func endSession() {
        let now = now()
        change { $0.endSession(at: now) }
    }

    // MARK: The file

    /// The error of the last write to the file; nil if it succeeded, or if the store has no file. The next change
    /// retries the write.
    public var failure: CookieStoreError? { state.withLock { $0.failure } }

    /// Writes pending changes to the file, and reads the changes of other processes. Blocks. Has no effect if the store
    /// has no file.
    public func flush() throws(CookieStoreError) {
        if let failure = writer?.flush(self) { throw failure }
    }
}

extension CookieStore: OpaqueReflectable {}

/// The interface for requests and responses.
extension CookieStore {
    /// Returns the value of the `Cookie` field for a request; nil if no cookie matches. Values that are not UTF-8 are
    /// decoded as Latin-1. Use ``fieldBytes(for:)`` to send back the server's bytes.
    package func field(for request: CookieRequest) -> String? {
        fieldBytes(for: request).map { ASCII.text($0[...]) }
    }

    /// Returns the value of the `Cookie` field for a request, in the bytes sent by the server; nil if no cookie matches
    /// (RFC 6265bis, section 5.8.3).
    package func fieldBytes(for request: CookieRequest) -> [UInt8]? {
        let cookies = cookies(for: request)
        guard !cookies.isEmpty else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(cookies.reduce(0) { $0 + $1.nameBytes.count + $1.valueBytes.count + 3 })
        for cookie in cookies {
            if !bytes.isEmpty { bytes += [UInt8(ascii: ";"), UInt8(ascii: " ")] }
            if !cookie.nameBytes.isEmpty {
                bytes += cookie.nameBytes
                bytes.append(UInt8(ascii: "="))
            }
            bytes += cookie.valueBytes
        }
        return bytes
    }

    /// Stores the cookies of `Set-Cookie` fields without calling the acceptance handler. Does not block or run user
    /// code.
    package func take(_ fields: [[UInt8]], from place: CookiePlace, url: URL) {
        for field in fields { _ = result(of: field, from: place) { _ in true } }
    }

    /// Stores the cookies of `Set-Cookie` fields that the acceptance handler accepts. Calls the handler on this thread.
    package func takeAsking(_ fields: [[UInt8]], from place: CookiePlace, url: URL) {
        let handler = acceptanceHandler
        for field in fields { _ = result(of: field, from: place) { handler?($0, url) ?? true } }
    }

    /// Stores the cookie of a field. Returns the reason why it was rejected; nil if it was stored or, being expired,
    /// removed another cookie.
    func result(of field: [UInt8], from place: CookiePlace, _ accepts: (Cookie) -> Bool) -> CookieRefusal? {
        let now = now()
        do throws(CookieRefusal) {
            let cookie = try CookieRules.cookie(SetCookieField(field), from: place, at: now)
            guard accepts(cookie) else { return .refusedByHandler }
            var refusal: CookieRefusal?
            change { state in
                do throws(CookieRefusal) {
                    return try state.insert(cookie, isOverTLS: place.isSecure, keepsCreation: false, at: now)
                } catch {
                    refusal = error
                    return false
                }
            }
            return refusal
        } catch {
            return error
        }
    }
}

/// The store's interface for the transport.
extension CookieStore: CookieStorage {
    package func field(for target: CookieTarget, site: URL?, isSafeMethod: Bool) -> [UInt8]? {
        fieldBytes(for: CookieRequest(place: CookiePlace(target), site: site, isSafeMethod: isSafeMethod))
    }

    package func take(_ fields: [[UInt8]], from target: CookieTarget, url: URL) {
        take(fields, from: CookiePlace(target), url: url)
    }

    package func takeAsking(_ fields: [[UInt8]], from target: CookieTarget, url: URL) {
        takeAsking(fields, from: CookiePlace(target), url: url)
    }
}

extension CookiePlace {
    fileprivate init(_ target: CookieTarget) {
        self.init(host: target.host, path: target.path, isSecure: target.isSecure)
    }
}

/// The errors of a ``CookieStore``'s file, and of reading and writing cookie files.
public enum CookieStoreError: Error, Sendable, Hashable {
    /// The file cannot be read. The values are its path and the reason.
    case cannotRead(String, reason: String)
    /// The file cannot be written. The values are its path and the reason.
    case cannotWrite(String, reason: String)
    /// The disk is full. The value is the path of the file.
    case isFull(String)
    /// Another process has held the lock for too long. The value is the path of the file.
    case isBusy(String)
    /// The file is damaged and cannot be replaced. The values are its path and the reason.
    case isDamaged(String, reason: String)
    /// The file belongs to another program, or to a newer version of this library. It has not been changed. The values
    /// are its path and the reason.
    case isForeign(String, reason: String)
    /// Another user owns the file or can change it. It has not been changed. The values are its path and the reason.
    case isUnsafe(String, reason: String)

    init(_ error: DatabaseError) {
        switch error.code {
        case .full: self = .isFull(error.path)
        case .busy: self = .isBusy(error.path)
        case .damaged: self = .isDamaged(error.path, reason: error.text)
        case .foreign, .newer: self = .isForeign(error.path, reason: error.text)
        case .unsafe: self = .isUnsafe(error.path, reason: error.text)
        case .cannotOpen: self = .cannotRead(error.path, reason: error.text)
        case .readOnly, .io, .replaced, .other: self = .cannotWrite(error.path, reason: error.text)
        }
    }
}

extension CookieStoreError: CustomStringConvertible {
    /// A sentence that describes the error.
    public var description: String {
        switch self {
        case .cannotRead(let path, let reason): "The cookies cannot be read from \(path): \(reason)"
        case .cannotWrite(let path, let reason): "The cookies cannot be written to \(path): \(reason)"
        case .isFull(let path): "The cookies cannot be written to \(path): the disk is full."
        case .isBusy(let path): "The cookies cannot be written to \(path): another process has locked the file."
        case .isDamaged(let path, let reason): "The file \(path) is damaged: \(reason)"
        case .isUnsafe(let path, let reason): "The cookies in \(path) cannot be trusted: \(reason)"
        case .isForeign(let path, let reason): "The file \(path) is not a cookie file of this library: \(reason)"
        }
    }
}
