import CCurl
import ConvoySecurity
import Foundation

/// Telling libcurl the way of a transfer.
extension EasyHandle {
    /// Takes the environment's proxies out of libcurl's hands. An empty text is no proxy, and no exceptions.
    func setRouteOptions() {
        convoy_easy_set_string(easy, CURLOPT_PROXY, "")
        convoy_easy_set_string(easy, CURLOPT_NOPROXY, "")
    }

    /// Sets a route in place of another one; nil is the direct one.
    ///
    /// - Parameter isScoped: whether the address has a scope of its own, so that there is no room for that of a key. Then
    ///   the connection is made for this transfer alone.
    func set(_ route: Route?, before: Route?, isScoped: Bool) -> CURLcode {
        var codes = [convoy_easy_set_string(easy, CURLOPT_PROXY, route?.proxyText ?? "")]
        if route?.unixSocket != before?.unixSocket {
            // The second of these also takes back what was set with the first.
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
        // libcurl 7.88 takes a connection to an abstract name for one that is still being made, and never uses it again.
        let isAlone = isScoped && key != nil || route?.unixSocket?.isAbstract == true
        codes.append(convoy_easy_set_long(easy, CURLOPT_FRESH_CONNECT, isAlone ? 1 : 0))
        codes.append(convoy_easy_set_long(easy, CURLOPT_FORBID_REUSE, isAlone ? 1 : 0))
        forbidsReuse = isAlone
        return codes.first { $0 != CURLE_OK } ?? CURLE_OK
    }
}

/// Whom a handle connects to.
extension EasyHandle {
    /// Makes libcurl ask here for each socket. Connections of several handles share the table that has the sockets.
    func setSocketOptions() {
        convoy_easy_set_pointer(easy, CURLOPT_OPENSOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        convoy_easy_set_open_socket_callback(easy) { context, _, address in
            guard let address, let handle = EasyHandle.from(context) else { return CURL_SOCKET_BAD }
            handle.clock?.noteSocket()
            return handle.open(address)
        }
    }

    /// Opens a socket for an address, if it may be connected to.
    private func open(_ address: UnsafeMutablePointer<curl_sockaddr>) -> curl_socket_t {
        // The structure goes on where the address is longer than a `sockaddr`.
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

    /// - Parameter address: nil for one of a family that the guard does not know, which it does not let through.
    private func refusal(of address: IPAddress?) -> AddressRefusal? {
        guard let route = applied.route, let addressGuard = route.addressGuard, route.unixSocket == nil else { return nil }
        let isProxy = route.proxy != nil
        guard let address else { return AddressRefusal(address: .unspecified, network: nil, isProxy: isProxy) }
        return addressGuard.refusal(of: address, isProxy: isProxy)
    }

    /// Whether the request may be sent on a connection that is there. It may have been made without the guard, or with
    /// another one.
    func mayUseConnection(to text: UnsafePointer<CChar>?) -> Bool {
        guard applied.route?.addressGuard != nil,
            let refusal = refusal(of: text.flatMap { IPAddress(String(cString: $0)) })
        else { return true }
        addresses.refusalOfConnection = refusal
        return false
    }
}

/// What became of the addresses to which libcurl wanted to connect for a transfer.
struct TriedAddresses {
    /// How many were connected to, or were at least tried.
    var openedCount = 0
    /// The first that was refused.
    var firstRefusal: AddressRefusal?
    /// The refusal of a connection that was already there.
    var refusalOfConnection: AddressRefusal?

    /// The system's last error about the source of a connection; 0 for none.
    var bindError: Int32 = 0

    /// Why the transfer could not begin; nil if that is not because of a refused address. Where others could be tried,
    /// their failure counts.
    var refusal: AddressRefusal? {
        refusalOfConnection ?? (openedCount == 0 && bindError == 0 ? firstRefusal : nil)
    }
}

/// TLS, whose trust is decided here and not by libcurl.
extension EasyHandle {
    /// Sets the options that a transfer over TLS needs. Trust is decided by ``TLSHandshake``; should libcurl ever decide,
    /// it trusts nobody.
    func setSecureOptions() throws(Refused) {
        try check(convoy_easy_set_long(easy, CURLOPT_SSL_VERIFYPEER, 1))
        try check(convoy_easy_set_long(easy, CURLOPT_PROXY_SSL_VERIFYPEER, 1))
        // libcurl compares the common name where there is no other.
        try check(convoy_easy_set_long(easy, CURLOPT_SSL_VERIFYHOST, 0))
        // A proxy with an address is not named in its handshake, so that libcurl has to compare it.
        try check(convoy_easy_set_long(easy, CURLOPT_PROXY_SSL_VERIFYHOST, 2))
        try check(convoy_easy_set_string(easy, CURLOPT_CAINFO, nil))
        try check(convoy_easy_set_string(easy, CURLOPT_PROXY_CAINFO, nil))
        // A resumed session brings no certificates that could be judged.
        try check(convoy_easy_set_long(easy, CURLOPT_SSL_SESSIONID_CACHE, 0))
        try check(convoy_easy_set_long(easy, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2)))
        try check(convoy_easy_set_long(easy, CURLOPT_PROXY_SSLVERSION, Self.proxyVersions))
        // libcurl 7.87 and later keep authorities for all connections of a multi handle; they are not used here.
        convoy_easy_set_long(easy, CURLOPT_CA_CACHE_TIMEOUT, 0)
    }

    /// The versions of TLS for a proxy: all from 1.2. That they have a maximum, which those for the server have not,
    /// tells their handshakes apart.
    private static let proxyVersions = Int(CURL_SSLVERSION_TLSv1_2) | Int(CURL_SSLVERSION_MAX_TLSv1_3)

    /// Takes part in a handshake. libcurl calls this for each that it begins, those with proxies too.
    func beginHandshake(_ sslContext: OpaquePointer) -> CURLcode {
        guard let tls = applied.tls, tls.isReady else { return CURLE_ABORTED_BY_CALLBACK }
        let isWithProxy = TLSHandshake.hasMaximumVersion(sslContext)
        guard let handshake = owner?.easyHandle(self, beginsHandshakeWithProxy: isWithProxy, tls),
            handshake.attach(to: sslContext)
        else { return CURLE_OUT_OF_MEMORY }
        self.handshake = handshake
        if !isWithProxy { clock?.handshakeBegan = NetworkRunLoop.now }
        return CURLE_OK
    }

    /// The handshake of the connection that the current transfer uses, over TLS; nil for plain text.
    var handshakeOfConnection: TLSHandshake? { convoy_easy_tls(easy).flatMap { TLSHandshake.of(OpaquePointer($0)) } }
}

/// Whom libcurl authenticates itself, by NTLM or Negotiate: several messages on one connection, which then belongs to the
/// user.
///
/// The connection is a new one, and is not used again: libcurl 7.88 may give one that Negotiate has authenticated to a
/// transfer of another user.
final class Negotiation: Sendable {
    /// A method, with the user that it is for; for Negotiate an empty one means the tickets that there are.
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

    /// Says which of the methods libcurl has, once.
    static let announcement: Void = {
        let features = convoy_version()?.pointee.features ?? 0
        ConnectionAuthentication.setSupported(
            ntlm: features & CURL_VERSION_NTLM != 0, negotiate: features & CURL_VERSION_SPNEGO != 0)
    }()

    /// Sets the options of a handle, which is used for nothing else after it.
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

/// Sending a body.
extension EasyHandle {
    /// Sets the options that a transfer with a body needs.
    func setUploadOptions() {
        let context = Unmanaged.passUnretained(self).toOpaque()
        convoy_easy_set_long(easy, CURLOPT_UPLOAD_BUFFERSIZE, 128 << 10)
        convoy_easy_set_pointer(easy, CURLOPT_READDATA, context)
        convoy_easy_set_pointer(easy, CURLOPT_SEEKDATA, context)
        convoy_easy_set_data_callback(easy, CURLOPT_READFUNCTION) { bytes, size, count, context in
            guard let bytes, let handle = EasyHandle.from(context), let owner = handle.owner else {
                return Int(CURL_READFUNC_ABORT)
            }
            let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
            switch owner.easyHandle(handle, fill: buffer) {
            case .bytes(let count): return count
            case .notNow: return Int(CURL_READFUNC_PAUSE)
            case .abort: return Int(CURL_READFUNC_ABORT)
            }
        }
        convoy_easy_set_seek_callback(easy) { context, offset, origin in
            guard offset == 0, origin == SEEK_SET, let handle = EasyHandle.from(context), let owner = handle.owner
            else { return Int32(CURL_SEEKFUNC_CANTSEEK) }
            return owner.easyHandleMustRewind(handle) ? Int32(CURL_SEEKFUNC_OK) : Int32(CURL_SEEKFUNC_FAIL)
        }
    }
}
