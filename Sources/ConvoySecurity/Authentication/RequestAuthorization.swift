import ConvoySupport
import Foundation
import FoundationNetworking
import Synchronization

/// The authorization to add to a request: a header field, or credentials for libcurl.
package enum RequestAuthorization: Sendable {
    /// The value of `Authorization` or `Proxy-Authorization`, and the user name and password it is derived from.
    case field(String, user: String, password: String)
    /// The user name and password with which libcurl negotiates, in several messages on a connection.
    case connection(AuthenticationMethod, user: String, password: String)
}

/// The properties of a request that its authorization depends on.
package struct AuthorizationTarget: Sendable {
    package let server: AuthenticatingServer
    package let method: String
    /// The request target (RFC 9112, section 3.2), as sent.
    package let uri: String
    /// The body, which may be empty; nil if its bytes are not known before it is sent.
    package let body: Data?
    /// Whether the current thread may block to look up Kerberos tickets.
    package let mayBlock: Bool
    /// Whether the request has its own authorization. If so, it is sent unchanged until the server challenges it.
    package let hasOwn: Bool

    package init(server: AuthenticatingServer, method: String, uri: String, body: Data?, mayBlock: Bool, hasOwn: Bool) {
        self.server = server
        self.method = method
        self.uri = uri
        self.body = body
        self.mayBlock = mayBlock
        self.hasOwn = hasOwn
    }
}

/// An object that authorizes each request of a transfer, including requests after redirects. It is called on the
/// network thread, which it must not block.
package protocol RequestAuthorizer: AnyObject, Sendable {
    func authorization(for target: AuthorizationTarget) -> RequestAuthorization?
}

/// An authorizer as part of a configuration, compared by reference.
package struct AuthorizerReference: Sendable, Hashable {
    package let authorizer: any RequestAuthorizer

    package init(_ authorizer: any RequestAuthorizer) { self.authorizer = authorizer }

    package static func == (one: Self, other: Self) -> Bool { one.authorizer === other.authorizer }

    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(authorizer)) }
}

/// The sources of an operation's credentials.
package struct CredentialSource: Sendable {
    /// The operation's own credential, which is intended for `ownServer`.
    package var own: URLCredential?
    package var ownServer: AuthenticatingServer?
    /// The credentials of the configured proxies.
    package var ofProxies: [AuthenticatingServer: URLCredential] = [:]
    package var store: CredentialStore?

    package init() {}

    func credential(for space: ProtectionSpace, of server: AuthenticatingServer) -> URLCredential? {
        if server.isProxy {
            if let known = ofProxies[server] { return known }
        } else if let own, let ownServer, server.mayUseCredential(of: ownServer) {
            return own
        }
        return store?.credential(for: space)
    }
}

/// The connection-based authentication methods that libcurl supports.
package enum ConnectionAuthentication {
    private static let methods = Atomic<UInt8>(0)

    /// Sets the methods that libcurl supports. The transport calls this method before its first request.
    package static func setSupported(ntlm: Bool, negotiate: Bool) {
        methods.store((ntlm ? 1 : 0) | (negotiate ? 2 : 0), ordering: .relaxed)
    }

    static func isSupported(_ method: AuthenticationMethod) -> Bool {
        let methods = methods.load(ordering: .relaxed)
        return method == .ntlm ? methods & 1 != 0 : method == .negotiate && methods & 2 != 0
    }
}

/// The answer to a Bearer challenge (RFC 6750).
package enum BearerAuthorization {
    /// Returns the value of the `Authorization` field: "Bearer " followed by the unmodified token.
    ///
    /// - Returns: nil if the token is empty or contains characters other than those of RFC 6750, section 2.1 (letters,
    ///   digits, "-._~+/", and "=" at its end).
    package static func value(token: String) -> String? {
        let bytes = token.utf8
        let padding = bytes.drop(while: isTokenByte)
        guard padding.count < bytes.count, padding.allSatisfy({ $0 == UInt8(ascii: "=") }) else { return nil }
        return "Bearer \(token)"
    }

    /// Returns whether a token may contain the byte before its padding. A `token68` allows the same bytes (RFC 9110,
    /// section 11.2).
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: "+"),
            UInt8(ascii: "/"):
            true
        default: false
        }
    }
}

/// The answer to a Basic challenge (RFC 7617).
package enum BasicAuthorization {
    /// Returns the value of the `Authorization` field: "Basic " and the Base64 of the user name and password in UTF-8.
    ///
    /// - Returns: nil if the user name contains a colon, which the server would treat as the separator, or if either
    ///   contains control characters (RFC 7617, section 2).
    package static func value(user: String, password: String) -> String? {
        guard !user.utf8.contains(UInt8(ascii: ":")), isSendable(user), isSendable(password) else { return nil }
        return "Basic \(Data("\(user):\(password)".utf8).base64EncodedString())"
    }

    /// Returns whether a string contains no control characters, neither ASCII nor Unicode.
    static func isSendable(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}

/// The remembered challenges of servers, with which later requests can be authorized without waiting for a challenge.
/// Credentials are not stored, because they are chosen for each request.
package final class AuthorizationMemory: Sendable {
    /// The memory shared by the entire program.
    package static let shared = AuthorizationMemory()

    /// A space whose challenge was answered successfully.
    struct Entry: Sendable {
        let space: ProtectionSpace
        /// The path prefixes of the space. It contains every path that begins with one of them (RFC 7617, section 2.2;
        /// `domain` in RFC 7616, section 3.3).
        let prefixes: [String]
        /// The nonce of the answered challenge; Digest only.
        let nonce: DigestNonce?
    }

    private struct Table {
        var entries: [AuthenticatingServer: [Entry]] = [:]
        /// The servers in the order of their last change, oldest first.
        var order: [AuthenticatingServer] = []
    }

    private let table = Locked(Table())
    private let count = Atomic<Int>(0)

    private static let mostServers = 1024
    private static let mostEntries = 32

    package init() {}

    /// Whether the memory is empty. Reading this property takes a single atomic load.
    package var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Returns whether a server has an entry.
    package func knows(_ server: AuthenticatingServer) -> Bool { !isEmpty && table.withLock { $0.entries[server] != nil } }

    /// Returns the entry whose prefix is the longest match for a request target.
    func entry(for uri: String, of server: AuthenticatingServer) -> Entry? {
        guard !isEmpty else { return nil }
        let path = Self.path(of: uri)
        let entries = table.withLock { $0.entries[server] } ?? []
        func depth(_ entry: Entry) -> Int {
            entry.prefixes.map { path.starts(with: $0.utf8) ? $0.utf8.count : -1 }.max() ?? -1
        }
        return entries.map { ($0, depth($0)) }.filter { $0.1 >= 0 }.max { $0.1 < $1.1 }?.0
    }

    /// Records that a server has accepted the answer to its challenge.
    func note(_ space: ProtectionSpace, nonce: DigestNonce?, at uri: String, of server: AuthenticatingServer) {
        let path = Self.path(of: uri)
        let folder = String(decoding: path.prefix((path.lastIndex(of: UInt8(ascii: "/")) ?? 0) + 1), as: UTF8.self)
        table.withLock { table in
            var entries = table.entries[server] ?? []
            // Fast path: most requests change nothing.
            if let last = entries.last, last.space == space, last.nonce === nonce,
                last.prefixes.contains(where: { path.starts(with: $0.utf8) })
            {
                return
            }
            let known = entries.firstIndex { $0.space == space }.map { entries.remove(at: $0) }
            var prefixes = known?.prefixes ?? []
            if let nonce {
                prefixes = Self.prefixes(of: nonce.challenge.domain, server)
            } else if server.isProxy {
                prefixes = [""]
            } else if !prefixes.contains(where: { path.starts(with: $0.utf8) }) {
                prefixes.removeAll { $0.utf8.starts(with: folder.utf8) }
                prefixes.append(folder)
            }
            entries.append(Entry(space: space, prefixes: Array(prefixes.suffix(Self.mostEntries)), nonce: nonce))
            table.entries[server] = Array(entries.suffix(Self.mostEntries))
            table.order.removeAll { $0 == server }
            table.order.append(server)
            if table.order.count > Self.mostServers { table.entries[table.order.removeFirst()] = nil }
            count.store(table.entries.count, ordering: .relaxed)
        }
    }

    /// Removes a space whose answer was refused.
    func forget(_ space: ProtectionSpace, of server: AuthenticatingServer) {
        guard !isEmpty else { return }
        table.withLock { table in
            table.entries[server]?.removeAll { $0.space == space }
            if table.entries[server]?.isEmpty == true {
                table.entries[server] = nil
                table.order.removeAll { $0 == server }
            }
            count.store(table.entries.count, ordering: .relaxed)
        }
    }

    private static func path(of uri: String) -> Array<UInt8>.SubSequence {
        Array(uri.utf8).prefix { $0 != UInt8(ascii: "?") }
    }

    /// Returns the paths specified by a `domain` parameter, excluding paths on other servers.
    private static func prefixes(of domain: [String], _ server: AuthenticatingServer) -> [String] {
        // Proxies ignore `domain` (RFC 7616, section 3.3).
        guard !server.isProxy else { return [""] }
        let paths = domain.compactMap { reference -> String? in
            if reference.hasPrefix("/"), !reference.hasPrefix("//") { return reference }
            guard let url = URL(string: reference), AuthenticatingServer(url) == server else { return nil }
            // Use the encoded form, because an encoded slash is not a separator.
            let path = URLComponents(url: url, resolvingAgainstBaseURL: false)?.percentEncodedPath ?? url.path
            return path.isEmpty ? "/" : path
        }
        return paths.isEmpty ? ["/"] : paths
    }
}
