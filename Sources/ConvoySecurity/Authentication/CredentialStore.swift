import ConvoySupport
import Foundation
import FoundationNetworking

/// A store of credentials and the protection spaces in which they are valid. The counterpart of `URLCredentialStorage`,
/// which on Linux does not find the credentials stored in it.
///
/// Credentials are looked up from the specific to the general: first those for exactly this space, then those for all
/// realms of the server with the same method (a space whose realm is nil), then those for the origin, and finally
/// ``netrc``. A credential is never used for another server, port, scheme or method, and a server's credential is never
/// used for a proxy.
///
/// The store is kept in memory only. Credentials with the persistence `.permanent` are treated as `.forSession`, and
/// those with `.none` are not stored. All members can be used on any thread. The description contains no passwords.
public final class CredentialStore: Sendable {
    /// A store for explicit sharing. By default, each manager has a separate store, so that no manager sends the
    /// credentials of another.
    public static let shared = CredentialStore()

    private struct Contents {
        var spaces: [ProtectionSpace: UserCredentials] = [:]
        var origins: [AuthenticatingServer: UserCredentials] = [:]
        var netrc: Netrc?
    }

    private let contents = Locked(Contents())

    /// Creates an empty store.
    public init() {}

    /// Whether the store has neither credentials nor a netrc file.
    package var isEmpty: Bool {
        contents.withLock { $0.spaces.isEmpty && $0.origins.isEmpty && $0.netrc == nil }
    }

    /// The netrc file for servers without credentials in the store; nil by default.
    ///
    /// It is used only for servers, not for proxies, and only for methods that require a user name and a password:
    /// Basic, Digest and NTLM.
    public var netrc: Netrc? {
        get { contents.withLock { $0.netrc } }
        set { contents.withLock { $0.netrc = newValue } }
    }

    /// Returns the first credential to try in a space: the default credential or, if none is set, the credential that
    /// was set last.
    ///
    /// - Parameters:
    ///   - space: The space of the challenge.
    ///   - user: The user whose credential to return; nil for any user.
    public func credential(for space: ProtectionSpace, user: String? = nil) -> URLCredential? {
        contents.withLock { contents in
            for credentials in Self.known(for: space, in: contents) {
                if let user {
                    if let credential = credentials[user] { return credential }
                } else if let credential = credentials.first {
                    return credential
                }
            }
            return Self.netrcCredential(for: space, user: user, in: contents)
        }
    }

    /// Returns all credentials that are valid in a space, by user name. If a user has several credentials, the result
    /// contains the most specific one.
    public func credentials(for space: ProtectionSpace) -> [String: URLCredential] {
        contents.withLock { contents in
            var all: [String: URLCredential] = [:]
            for credentials in Self.known(for: space, in: contents) {
                all.merge(credentials.byUser) { narrower, _ in narrower }
            }
            if let credential = Self.netrcCredential(for: space, user: nil, in: contents) {
                all.merge([credential.user ?? "": credential]) { narrower, _ in narrower }
            }
            return all
        }
    }

    /// Adds a credential to a space, replacing that of the same user. A credential with the persistence `.none` is
    /// ignored.
    public func set(_ credential: URLCredential, for space: ProtectionSpace) {
        insert(credential) { contents, change in change(&contents.spaces[space, default: UserCredentials()]) }
    }

    /// Adds a credential to a space and makes it the first credential to try, even if other credentials are added
    /// later.
    public func setDefaultCredential(_ credential: URLCredential, for space: ProtectionSpace) {
        insert(credential, asDefault: true) { contents, change in
            change(&contents.spaces[space, default: UserCredentials()])
        }
    }

    /// Adds a credential for all realms and methods of a URL's server. The server chooses the method, so Basic may send
    /// the credential in clear text. To restrict the method, use a ``ProtectionSpace``.
    ///
    /// - Returns: False, without any change, if the URL is not an HTTP or HTTPS URL with a host.
    @discardableResult
    public func set(_ credential: URLCredential, forOriginOf url: URL) -> Bool {
        guard let origin = AuthenticatingServer(url) else { return false }
        insert(credential) { contents, change in change(&contents.origins[origin, default: UserCredentials()]) }
        return true
    }

    /// Removes the credential of the same user from a space. Credentials in more general spaces, in the origin and in
    /// ``netrc`` are kept.
    public func remove(_ credential: URLCredential, for space: ProtectionSpace) {
        let user = credential.user ?? ""
        contents.withLock { contents in
            contents.spaces[space]?.remove(user)
            if contents.spaces[space]?.first == nil { contents.spaces[space] = nil }
        }
    }

    /// Removes all credentials for the origin of a URL. Credentials in its protection spaces are kept.
    public func removeCredentials(forOriginOf url: URL) {
        guard let origin = AuthenticatingServer(url) else { return }
        contents.withLock { $0.origins[origin] = nil }
    }

    /// Removes all credentials. ``netrc`` is kept.
    public func removeAll() {
        contents.withLock { ($0.spaces, $0.origins) = ([:], [:]) }
    }
}

extension CredentialStore {
    private func insert(
        _ credential: URLCredential, asDefault: Bool = false,
        into change: (inout Contents, (inout UserCredentials) -> Void) -> Void
    ) {
        guard credential.persistence != .none else { return }
        // Read the user name before the lock is acquired, because a user's subclass can override the property.
        let user = credential.user ?? ""
        contents.withLock { contents in
            change(&contents) { $0.insert(credential, of: user, asDefault: asDefault) }
        }
    }

    /// Returns the credentials that apply to a space, starting with the most specific.
    private static func known(for space: ProtectionSpace, in contents: Contents) -> [UserCredentials] {
        var known = [contents.spaces[space]]
        if space.realm != nil { known.append(contents.spaces[space.forAllRealms]) }
        // A proxy has no origin credentials.
        known.append(contents.origins[space.server])
        return known.compactMap { $0 }
    }

    private static func netrcCredential(
        for space: ProtectionSpace, user: String?, in contents: Contents
    ) -> URLCredential? {
        switch space.method {
        case .basic, .digest, .ntlm:
            space.isProxy ? nil : contents.netrc?.credential(forHost: space.host, user: user)
        case .bearer, .negotiate: nil
        }
    }
}

extension CredentialStore: CustomStringConvertible {
    /// The number of protection spaces and origins with credentials.
    public var description: String {
        contents.withLock { contents in
            let netrc = contents.netrc.map { ", \($0)" } ?? ""
            let spaces = "\(contents.spaces.count) protection spaces"
            return "CredentialStore with \(spaces), \(contents.origins.count) origins\(netrc)"
        }
    }
}

extension CredentialStore: OpaqueReflectable {}

/// The credentials for one space or origin, one per user.
struct UserCredentials {
    /// The credentials in the order in which they were set. An array is sufficient, because few programs have several
    /// users for one server.
    private var all: [(user: String, credential: URLCredential)] = []
    private var defaultUser: String?

    var byUser: [String: URLCredential] { Dictionary(all.map { ($0.user, $0.credential) }) { $1 } }

    /// The first credential to try; nil if empty.
    var first: URLCredential? { defaultUser.flatMap { self[$0] } ?? all.last?.credential }

    subscript(user: String) -> URLCredential? { all.first { $0.user == user }?.credential }

    mutating func insert(_ credential: URLCredential, of user: String, asDefault: Bool) {
        all.removeAll { $0.user == user }
        all.append((user, credential))
        if asDefault { defaultUser = user }
    }

    mutating func remove(_ user: String) {
        all.removeAll { $0.user == user }
        if defaultUser == user { defaultUser = nil }
    }
}
