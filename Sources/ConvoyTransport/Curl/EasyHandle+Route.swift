import CCurl

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
