import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// Sets libcurl's options for the route of a transfer.
extension EasyHandle {
    /// Prevents libcurl from using the proxies of the environment. An empty string means no proxy and no exceptions.
    func setRouteOptions() throws(Refused) {
        try check(convoy_easy_set_string(easy, CURLOPT_PROXY, ""))
        try check(convoy_easy_set_string(easy, CURLOPT_NOPROXY, ""))
    }

    /// Replaces the route of the previous transfer; nil for a direct connection.
    ///
    /// - Parameter isScoped: Whether the address has its own scope, which leaves no room for the route's key. The
    ///   connection is then used only for this transfer.
    func set(_ route: Route?, before: Route?, isScoped: Bool) -> CURLcode {
        var codes = [convoy_easy_set_string(easy, CURLOPT_PROXY, route?.proxyText ?? "")]
        if route?.unixSocket != before?.unixSocket {
            // Setting the second of these options also resets the first.
            codes.append(convoy_easy_set_string(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, nil))
            if let socket = route?.unixSocket {
                let option = socket.isAbstract ? CURLOPT_ABSTRACT_UNIX_SOCKET : CURLOPT_UNIX_SOCKET_PATH
                codes.append(convoy_easy_set_string(easy, option, socket.name))
            }
        }
        if route?.connectTo != before?.connectTo || route?.connectTo != nil {
            codes.append(convoy_easy_set_pointer(easy, CURLOPT_CONNECT_TO, route?.connectToList))
        }
        let cacheTime = route?.nameCacheSeconds ?? Route.defaultNameCacheSeconds
        codes.append(convoy_easy_set_long(easy, CURLOPT_DNS_CACHE_TIMEOUT, cacheTime))
        let key = route?.key
        codes.append(convoy_easy_set_long(easy, CURLOPT_ADDRESS_SCOPE, isScoped ? 0 : key?.number ?? 0))
        return codes.first { $0 != CURLE_OK } ?? CURLE_OK
    }
}

/// Controls the addresses that a handle connects to.
extension EasyHandle {
    /// Makes libcurl open its sockets through this module. Connections of several handles share the socket table.
    func setSocketOptions() throws(Refused) {
        try check(convoy_easy_set_pointer(easy, CURLOPT_OPENSOCKETDATA, Unmanaged.passUnretained(self).toOpaque()))
        try check(
            convoy_easy_set_open_socket_callback(easy) { context, _, address in
                guard let address, let handle = EasyHandle.from(context) else { return CURL_SOCKET_BAD }
                handle.clock?.noteSocket()
                return handle.open(address)
            })
    }

    /// Opens a socket for an address if the guard allows it.
    private func open(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        // Addresses longer than a `sockaddr` extend beyond the structure.
        let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) ?? 0
        let own = UnsafeRawPointer(address).advanced(by: offset).assumingMemoryBound(to: sockaddr.self)
        if let refusal = refusal(of: IPAddress(own)) {
            if addresses.firstRefusal == nil { addresses.firstRefusal = refusal }
            sockets.stalled.append(self)
            return CURL_SOCKET_BAD
        }
        let descriptor = sockets.open(address.pointee)
        if descriptor >= 0, let source = applied.route?.source {
            let code = source.bind(descriptor, family: address.pointee.family)
            guard code == 0 else {
                addresses.bindError = code
                sockets.closeSocket(descriptor)
                sockets.stalled.append(self)
                return CURL_SOCKET_BAD
            }
        }
        if descriptor >= 0 { applied.route?.serviceType.mark(descriptor, family: address.pointee.family) }
        addresses.openedCount += 1
        return descriptor
    }

    /// - Parameter address: The address; nil for an unknown address family, which is rejected.
    private func refusal(of address: IPAddress?) -> AddressRefusal? {
        guard let route = applied.route, let addressGuard = route.addressGuard, route.unixSocket == nil else { return nil }
        let isProxy = route.proxy != nil
        guard let address else { return AddressRefusal(address: .unspecified, network: nil, isProxy: isProxy) }
        return addressGuard.refusal(of: address, isProxy: isProxy)
    }

    /// Returns whether the request may be sent on an existing connection, which may have been opened without a guard or
    /// with a different one.
    func mayUseConnection(to text: UnsafePointer<CChar>?) -> Bool {
        guard applied.route?.addressGuard != nil,
            let refusal = refusal(of: text.flatMap { IPAddress(String(cString: $0)) })
        else { return true }
        addresses.refusalOfConnection = refusal
        return false
    }
}

/// The results for the addresses that libcurl attempted to connect to.
struct ConnectAttempts {
    /// The number of addresses tried.
    var openedCount = 0
    /// The first rejection.
    var firstRefusal: AddressRefusal?
    /// The rejection of an existing connection.
    var refusalOfConnection: AddressRefusal?

    /// The last system error when binding to the source; 0 for none.
    var bindError: Int32 = 0

    /// The reason why the transfer could not begin; nil unless all addresses were rejected. If other addresses were
    /// tried, their failure takes precedence.
    var refusal: AddressRefusal? {
        refusalOfConnection ?? (openedCount == 0 && bindError == 0 ? firstRefusal : nil)
    }
}

/// TLS options and handshakes. Convoy, not libcurl, evaluates trust.
extension EasyHandle {
    /// Sets the options for TLS. ``TLSHandshake`` evaluates trust; libcurl itself trusts no certificate.
    func setSecureOptions() throws(Refused) {
        try check(convoy_easy_set_long(easy, CURLOPT_SSL_VERIFYPEER, 1))
        try check(convoy_easy_set_long(easy, CURLOPT_PROXY_SSL_VERIFYPEER, 1))
        // libcurl would fall back to comparing the common name.
        try check(convoy_easy_set_long(easy, CURLOPT_SSL_VERIFYHOST, 0))
        // The handshake contains no name for a proxy that is specified by its address, so libcurl must compare the
        // address.
        try check(convoy_easy_set_long(easy, CURLOPT_PROXY_SSL_VERIFYHOST, 2))
        try check(convoy_easy_set_string(easy, CURLOPT_CAINFO, nil))
        try check(convoy_easy_set_string(easy, CURLOPT_PROXY_CAINFO, nil))
        // A resumed session has no certificates to evaluate.
        try check(convoy_easy_set_long(easy, CURLOPT_SSL_SESSIONID_CACHE, 0))
        try check(convoy_easy_set_long(easy, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)))
        try check(convoy_easy_set_long(easy, CURLOPT_PROXY_SSLVERSION, Self.proxyVersions))
        // libcurl 7.87 and later cache authorities for all connections of a multi handle. Convoy does not use them.
        convoy_easy_set_long(easy, CURLOPT_CA_CACHE_TIMEOUT, 0)
    }

    /// The TLS versions for a proxy: all versions from 1.2 on. Unlike those for the server, they include a maximum,
    /// which distinguishes the two handshakes.
    private static let proxyVersions = Int(CURL_SSLVERSION_TLSv1_2) | Int(CURL_SSLVERSION_MAX_TLSv1_3)

    /// Takes over trust evaluation in a handshake. libcurl calls this for each handshake, including those with proxies.
    func beginHandshake(_ sslContext: OpaquePointer) -> CURLcode {
        guard let tls = applied.tls, tls.isReady else { return CURLE_ABORTED_BY_CALLBACK }
        let isWithProxy = TLSHandshake.hasMaximumVersion(sslContext)
        guard let handshake = owner?.handshake(withProxy: isWithProxy, tls),
            handshake.attach(to: sslContext)
        else { return CURLE_OUT_OF_MEMORY }
        self.handshake = handshake
        if !isWithProxy { clock?.handshakeBegan = NetworkRunLoop.now }
        return CURLE_OK
    }

    /// Whether the response arrived over HTTP/1, so that its connection carried no other request concurrently.
    var speaksHTTP1: Bool { (CURL_HTTP_VERSION_1_0...CURL_HTTP_VERSION_1_1).contains(long(CURLINFO_HTTP_VERSION)) }

    /// Stores the connection's TLS state, which libcurl provides only while the transfer has the connection.
    func noteTLS() {
        guard let connection = convoy_easy_tls(easy).map({ OpaquePointer($0) }) else { return }
        tlsOfConnection = TLSHandshake.of(connection)
        tlsOfConnection?.note(connection)
    }

    /// The handshake of the current transfer's connection; nil for plain text.
    var handshakeOfConnection: TLSHandshake? { convoy_easy_tls(easy).flatMap { TLSHandshake.of(OpaquePointer($0)) } }
}

/// The credentials for NTLM or Negotiate, with which libcurl itself authenticates a connection in several messages. The
/// connection then belongs to the user.
///
/// Such a connection is new and is not reused: libcurl 7.88 may give a connection authenticated with Negotiate to
/// another user's transfer.
final class Negotiation: Sendable {
    /// A method and its user. For Negotiate, an empty user stands for the available tickets.
    struct Party: Equatable, Sendable {
        let method: AuthenticationMethod
        let user: String
        let password: String

        var bits: Int { method == .ntlm ? 1 << 3 : 1 << 2 }
    }

    let server: Party?
    let proxy: Party?

    init(server: Party?, proxy: Party?) {
        self.server = server
        self.proxy = proxy
    }

    /// The announcement of the methods that libcurl supports, made once.
    static let announcement: Void = {
        let features = convoy_version()?.pointee.features ?? 0
        ConnectionAuthentication.setSupported(
            ntlm: features & CURL_VERSION_NTLM != 0, negotiate: features & CURL_VERSION_SPNEGO != 0)
    }()

    /// Sets the options of a handle, which is not reused afterwards.
    func apply<Failure: Error>(
        _ check: (CURLcode) throws(Failure) -> Void, to easy: UnsafeMutableRawPointer
    ) throws(Failure) {
        try check(convoy_easy_set_long(easy, CURLOPT_FRESH_CONNECT, 1))
        try check(convoy_easy_set_long(easy, CURLOPT_FORBID_REUSE, 1))
        if let server {
            try check(convoy_easy_set_long(easy, CURLOPT_HTTPAUTH, server.bits))
            try check(convoy_easy_set_string(easy, CURLOPT_USERNAME, server.user))
            try check(convoy_easy_set_string(easy, CURLOPT_PASSWORD, server.password))
        }
        if let proxy {
            try check(convoy_easy_set_long(easy, CURLOPT_PROXYAUTH, proxy.bits))
            try check(convoy_easy_set_string(easy, CURLOPT_PROXYUSERNAME, proxy.user))
            try check(convoy_easy_set_string(easy, CURLOPT_PROXYPASSWORD, proxy.password))
        }
    }
}

extension Negotiation: Equatable {
    static func == (one: Negotiation, other: Negotiation) -> Bool { one === other }
}
