import ConvoySupport
import Foundation
import FoundationNetworking

/// Stores credentials by the protection spaces in which they are valid. The counterpart of `URLCredentialStorage`,
/// which on Linux does not find what was stored in it.
///
/// A look-up goes from the specific to the general: first the credentials of exactly this space, then those of all
/// realms of the server with the same method (a space whose realm is nil), then those of the origin, then ``netrc``. A
/// credential for one server, port, scheme or method is never used for another, and one for a server never for a proxy.
///
/// It is kept in memory only: a credential of persistence `.permanent` is kept as long as one of `.forSession`, and one
/// of persistence `.none` is not stored at all. All members can be used on any thread. The description contains no
/// passwords.
public final class CredentialStore: Sendable {
    /// A store to share explicitly. By default each manager has a store of its own, so that one does not send the
    /// credentials of another.
    public static let shared = CredentialStore()

    private struct Contents {
        var spaces: [ProtectionSpace: UserCredentials] = [:]
        var origins: [AuthenticatingServer: UserCredentials] = [:]
        var netrc: Netrc?
    }

    private let contents = Locked(Contents())

    /// An empty store.
    public init() {}

    /// The netrc file for servers that have no credentials in the store; nil by default, for none.
    ///
    /// It is used for servers only, not for proxies, and for the methods that need a user and a password: Basic, Digest
    /// and NTLM.
    public var netrc: Netrc? {
        get { contents.withLock { $0.netrc } }
        set { contents.withLock { $0.netrc = newValue } }
    }

    /// The credential to try first in a space: the default one, or else the one that was set last.
    ///
    /// - Parameters:
    ///   - space: the space of the challenge.
    ///   - user: the user whose credential to return; nil for any.
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

    /// All credentials that are valid in a space, by user name. The more specific one of a user counts.
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

    /// Adds a credential to a space, replacing one of the same user. One of persistence `.none` changes nothing.
    public func set(_ credential: URLCredential, for space: ProtectionSpace) {
        insert(credential) { contents, change in change(&contents.spaces[space, default: UserCredentials()]) }
    }

    /// Adds a credential to a space and makes it the one to try first, even if others are added later.
    public func setDefaultCredential(_ credential: URLCredential, for space: ProtectionSpace) {
        insert(credential, asDefault: true) { contents, change in
            change(&contents.spaces[space, default: UserCredentials()])
        }
    }

    /// Adds a credential for all realms and methods of a URL's server. The server decides the method, so that it can be
    /// sent in clear text by Basic; set it for a ``ProtectionSpace`` to restrict the method.
    ///
    /// - Returns: false, without a change, if the URL is not one of HTTP or HTTPS with a host.
    @discardableResult
    public func set(_ credential: URLCredential, forOriginOf url: URL) -> Bool {
        guard let origin = AuthenticatingServer(url) else { return false }
        insert(credential) { contents, change in change(&contents.origins[origin, default: UserCredentials()]) }
        return true
    }

    /// Removes the credential of the same user from a space. Those of more general spaces, of the origin and of
    /// ``netrc`` stay.
    public func remove(_ credential: URLCredential, for space: ProtectionSpace) {
        let user = credential.user ?? ""
        contents.withLock { contents in
            contents.spaces[space]?.remove(user)
            if contents.spaces[space]?.first == nil { contents.spaces[space] = nil }
        }
    }

    /// Removes all credentials of the origin of a URL. Those of its protection spaces stay.
    public func removeCredentials(forOriginOf url: URL) {
        guard let origin = AuthenticatingServer(url) else { return }
        contents.withLock { $0.origins[origin] = nil }
    }

    /// Removes all credentials. ``netrc`` stays.
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
        // Read before the lock is taken, as a subclass of the user's can override it.
        let user = credential.user ?? ""
        contents.withLock { contents in
            change(&contents) { $0.insert(credential, of: user, asDefault: asDefault) }
        }
    }

    /// The credentials that apply to a space, from the specific to the general.
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

extension CredentialStore: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The credentials of one space or origin, one for each user.
struct UserCredentials {
    /// In the order in which they were set. An array, as few programs have several users of one server.
    private var all: [(user: String, credential: URLCredential)] = []
    private var defaultUser: String?

    var byUser: [String: URLCredential] { Dictionary(all.map { ($0.user, $0.credential) }) { $1 } }

    /// The credential to try first; nil if there is none.
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
