import ConvoySupport
import Foundation
import FoundationNetworking

/// Credentials by the protection spaces in which they are valid. The counterpart of `URLCredentialStorage`, which on Linux
/// finds none of what it was given.
///
/// It is asked for a space from the narrow to the wide: first for what was set for exactly this space, then for what was
/// set for all realms of the server with the same method (a space whose realm is nil), then for what was set for the
/// origin, then in ``netrc``. A credential for one server, port, scheme or method is never used for another, and one for
/// a server never for a proxy.
///
/// It lives in memory: a credential of persistence `.permanent` is kept as long as one of `.forSession`, and one of
/// persistence `.none` is not kept at all. All members can be used on any thread. There are no passwords in its
/// description.
public final class CredentialStore: Sendable {
    /// A store for those who are given it: managers have stores of their own, and what one was told, another does not send.
    public static let shared = CredentialStore()

    private struct Contents {
        var spaces: [ProtectionSpace: UserCredentials] = [:]
        var origins: [AuthenticatingServer: UserCredentials] = [:]
        var netrc: Netrc?
    }

    private let contents = Locked(Contents())

    /// An empty store.
    public init() {}

    /// Where to look for servers for which nothing was set; nil, as it is at first, for nowhere.
    ///
    /// It is asked for servers only, not for proxies, and for the methods that need a user and a password: Basic, Digest
    /// and NTLM.
    public var netrc: Netrc? {
        get { contents.withLock { $0.netrc } }
        set { contents.withLock { $0.netrc = newValue } }
    }

    /// The credential to try first in a space: of all that are known the default one, or else the one that was set last.
    ///
    /// - Parameters:
    ///   - space: who asks, for what.
    ///   - user: the user whose credential it has to be; nil for any.
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

    /// All credentials that are valid in a space, by their users. Of two of the same user it is the narrower one.
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

    /// Adds a credential to a space, in place of one that the same user had there. One of persistence `.none` is not kept,
    /// and changes nothing.
    public func set(_ credential: URLCredential, for space: ProtectionSpace) {
        insert(credential) { contents, change in change(&contents.spaces[space, default: UserCredentials()]) }
    }

    /// Adds a credential to a space, and makes it the one to try first, whatever is added later.
    public func setDefaultCredential(_ credential: URLCredential, for space: ProtectionSpace) {
        insert(credential, asDefault: true) { contents, change in
            change(&contents.spaces[space, default: UserCredentials()])
        }
    }

    /// Adds a credential for all realms of the server that a URL names, and for all methods: whatever the server asks
    /// for, it gets. Set it for a ``ProtectionSpace`` where the password may not be sent as it is.
    ///
    /// - Returns: false if the URL is not one of HTTP or HTTPS with a host; then nothing has changed.
    @discardableResult
    public func set(_ credential: URLCredential, forOriginOf url: URL) -> Bool {
        guard let origin = AuthenticatingServer(url) else { return false }
        insert(credential) { contents, change in change(&contents.origins[origin, default: UserCredentials()]) }
        return true
    }

    /// Removes the credential that its user has in a space. Those of wider spaces, of the origin and of ``netrc`` stay.
    public func remove(_ credential: URLCredential, for space: ProtectionSpace) {
        let user = credential.user ?? ""
        contents.withLock { contents in
            contents.spaces[space]?.remove(user)
            if contents.spaces[space]?.first == nil { contents.spaces[space] = nil }
        }
    }

    /// Removes all credentials that were set for the origin of a URL, but for those of its protection spaces.
    public func removeCredentials(forOriginOf url: URL) {
        guard let origin = AuthenticatingServer(url) else { return }
        contents.withLock { $0.origins[origin] = nil }
    }

    /// Removes all credentials that were set. ``netrc`` stays.
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
        // Asked for here, as a subclass can override it, and no code of others runs while the lock is held.
        let user = credential.user ?? ""
        contents.withLock { contents in
            change(&contents) { $0.insert(credential, of: user, asDefault: asDefault) }
        }
    }

    /// What was set for a space, the narrow before the wide.
    private static func known(for space: ProtectionSpace, in contents: Contents) -> [UserCredentials] {
        var known = [contents.spaces[space]]
        if space.realm != nil { known.append(contents.spaces[space.forAllRealms]) }
        // There are none for a proxy.
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
    /// For how many protection spaces and origins there are credentials.
    public var description: String {
        contents.withLock { contents in
            let netrc = contents.netrc.map { ", \($0)" } ?? ""
            let spaces = "\(contents.spaces.count) protection spaces"
            return "CredentialStore with \(spaces), \(contents.origins.count) origins\(netrc)"
        }
    }
}

extension CredentialStore: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
