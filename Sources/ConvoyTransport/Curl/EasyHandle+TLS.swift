import CCurl
import ConvoySecurity
import Foundation

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
