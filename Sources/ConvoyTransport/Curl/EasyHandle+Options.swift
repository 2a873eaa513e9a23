import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// Sets libcurl's options: those that every transfer needs once, and others only if they change.
extension EasyHandle {
    /// Sets the options that every transfer needs. Options that only some transfers need are set for those transfers,
    /// because setting them for every new handle takes time. All results are checked: without its callback, libcurl
    /// would interpret the context pointer as a C `FILE`.
    func setPermanentOptions() throws(Refused) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        try check(sockets.adopt(easy))
        try setSocketOptions()
        try check(convoy_easy_set_pointer(easy, CURLOPT_PRIVATE, context))
        try check(convoy_easy_set_pointer(easy, CURLOPT_ERRORBUFFER, errorText))
        try check(convoy_easy_set_long(easy, CURLOPT_NOSIGNAL, 1))
        try check(convoy_easy_allow_only_http(easy))
        try setRouteOptions()
        // Disable libcurl's limit of five minutes, because `NetworkExchange`'s timers also cover connecting; see
        // `Options`.
        try check(convoy_easy_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, Int(Int32.max)))
        // Removing a handle during a DNS lookup must not wait for the resolver's thread.
        convoy_easy_set_long(easy, CURLOPT_QUICK_EXIT, 1)

        try check(convoy_easy_set_pointer(easy, CURLOPT_HEADERDATA, context))
        try check(convoy_easy_set_pointer(easy, CURLOPT_WRITEDATA, context))
        try check(convoy_easy_set_pointer(easy, CURLOPT_PREREQDATA, context))
        try check(
            convoy_easy_set_prerequest_callback(easy) { context, address, _, _, _ in
                guard let context else { return Int32(CURL_PREREQFUNC_ABORT) }
                return Unmanaged<EasyHandle>.fromOpaque(context)._withUnsafeGuaranteedRef { handle in
                    Int32(handle.maySend(to: address) ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT)
                }
            })
        try check(convoy_easy_set_pointer(easy, CURLOPT_SSL_CTX_DATA, context))
        decidesTrust =
            convoy_easy_set_handshake_callback(easy) { _, sslContext, context in
                guard let sslContext, let handle = EasyHandle.from(context) else { return CURLE_ABORTED_BY_CALLBACK }
                return handle.beginHandshake(OpaquePointer(sslContext))
            } == CURLE_OK
        try check(
            convoy_easy_set_data_callback(easy, CURLOPT_HEADERFUNCTION) { bytes, size, count, context in
                guard let bytes, let context else { return 0 }
                let line = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
                // libcurl calls this for each line, so avoid reference counting: the handle outlives libcurl's use of
                // it.
                return Unmanaged<EasyHandle>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.take(line) } ? line.count : 0
            })
        if CurlQuirks.foldedLines == .hidingOfLine { try setTraceCallback() }
        try check(
            convoy_easy_set_data_callback(easy, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
                guard let bytes, let context else { return 0 }
                let block = UnsafeRawBufferPointer(start: bytes, count: size * count)
                return Unmanaged<EasyHandle>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.take(block: block) }
            })
    }

    /// Sets the callback that libcurl calls while `CURLOPT_VERBOSE` is on.
    private func setTraceCallback() throws(Refused) {
        try check(convoy_easy_set_pointer(easy, CURLOPT_DEBUGDATA, Unmanaged.passUnretained(self).toOpaque()))
        try check(
            convoy_easy_set_trace_callback(easy) { _, kind, bytes, count, context in
                guard let bytes, let handle = EasyHandle.from(context) else { return 0 }
                let piece = UnsafeMutableRawBufferPointer(start: bytes, count: count)
                // Trace the line first, because the guard may change it.
                if handle.trace != nil, let kind = TraceRecorder.Piece(kind) {
                    handle.trace?.take(kind, UnsafeRawBufferPointer(piece))
                }
                if kind == CURLINFO_HEADER_IN, CurlQuirks.foldedLines == .hidingOfLine { handle.folding.look(at: piece) }
                return 0
            })
        hasTraceCallback = true
    }

    // MARK: Preparation

    /// Prepares the handle for a transfer.
    ///
    /// - Parameter asWritten: Whether the path and the query are sent as written.
    func prepare(
        _ address: HTTPAddress, asWritten: Bool, options: consuming Options, header: RequestHeader, trace: TraceRecorder?,
        clock: RequestClock?
    ) -> CURLcode {
        errorText.pointee = 0
        sendCount = 0
        progressCount = 0
        handshake = nil
        tlsOfConnection = nil
        socket = -1
        isSendingPaused = false
        mayMergeLines = false
        refusal = nil
        addresses = ConnectAttempts()
        self.trace = trace
        self.clock = clock
        if clock != nil, !hasLookUpCallback {
            hasLookUpCallback = true
            setLookUpCallback()
        }
        do throws(Refused) {
            if trace != nil, !hasTraceCallback { try setTraceCallback() }
            folding.reset(easy, isTraced: trace != nil)
            try set(address, asWritten: asWritten)
            try apply(options)
            if header !== self.header {
                try check(convoy_easy_set_pointer(easy, CURLOPT_HTTPHEADER, header.lines))
                if header.proxyLines != self.header?.proxyLines {
                    try check(convoy_easy_set_pointer(easy, CURLOPT_PROXYHEADER, header.proxyLines))
                }
                self.header = header
            }
            return CURLE_OK
        } catch {
            // Only some options may have been set, so the handle must not be reused.
            wasRefused = true
            return error.code
        }
    }

    /// Sets the URL.
    ///
    /// libcurl would parse and rewrite a URL for each transfer, which takes a tenth of its time for a small request. It
    /// therefore gets the origin already parsed, once for all requests to a server, and the request target as text.
    private func set(_ address: HTTPAddress, asWritten: Bool) throws(Refused) {
        guard asWritten, let url = origin.url(of: address.target) else {
            if hasOrigin {
                hasOrigin = false
                try check(convoy_easy_set_pointer(easy, CURLOPT_CURLU, nil))
                try check(convoy_easy_set_string(easy, CURLOPT_REQUEST_TARGET, nil))
            }
            // `withCString` avoids a copy of the string.
            return try check(address.text.withCString { convoy_easy_set_string(easy, CURLOPT_URL, $0) })
        }
        if !hasOrigin {
            hasOrigin = true
            try check(convoy_easy_set_pointer(easy, CURLOPT_CURLU, UnsafeMutableRawPointer(url)))
        }
        let code = address.text.withCString { text in
            let path = strchr(text + (address.target.isSecure ? "https://" : "http://").utf8.count, Int32(UInt8(ascii: "/")))
            return path.map { convoy_easy_set_string(easy, CURLOPT_REQUEST_TARGET, $0) }
        }
        try check(code ?? convoy_easy_set_string(easy, CURLOPT_REQUEST_TARGET, "/"))
    }

    private func apply(_ options: consuming Options) throws(Refused) {
        guard !options.equals(applied) else { return }
        if options.method != applied.method || options.body != applied.body {
            // The order matters, because each of these options resets the previous one.
            try check(convoy_easy_set_long(easy, CURLOPT_NOBODY, 0))
            try check(convoy_easy_set_long(easy, CURLOPT_UPLOAD, 0))
            try check(convoy_easy_set_long(easy, CURLOPT_HTTPGET, 1))
            if case .upload(let length) = options.body {
                if applied.body == .none { try setUploadOptions() }
                try check(convoy_easy_set_long(easy, CURLOPT_UPLOAD, 1))
                try check(convoy_easy_set_offset(easy, CURLOPT_INFILESIZE_LARGE, curl_off_t(length ?? -1)))
            } else if options.method == "HEAD" {
                try check(convoy_easy_set_long(easy, CURLOPT_NOBODY, 1))
            }
            let isNative = options.body == .none && (options.method == "GET" || options.method == "HEAD")
            try check(convoy_easy_set_string(easy, CURLOPT_CUSTOMREQUEST, isNative ? nil : options.method))
        }
        if options.version != applied.version {
            let version =
                switch options.version {
                case .http1_0: CURL_HTTP_VERSION_1_0
                case .http1_1: CURL_HTTP_VERSION_1_1
                case .http2: CURL_HTTP_VERSION_2TLS
                }
            try check(convoy_easy_set_long(easy, CURLOPT_HTTP_VERSION, Int(version)))
            // Many servers reject the ALPN name of HTTP/1.0.
            try check(convoy_easy_set_long(easy, CURLOPT_SSL_ENABLE_ALPN, options.version == .http1_0 ? 0 : 1))
        }
        if options.keepsDotSegments != applied.keepsDotSegments {
            try check(convoy_easy_set_long(easy, CURLOPT_PATH_AS_IS, options.keepsDotSegments ? 1 : 0))
        }
        if let tls = options.tls, tls != applied.tls {
            if applied.tls == nil { try setSecureOptions() }
            // This key ensures that libcurl reuses connections only with the settings with which they were opened.
            try check(convoy_easy_set_string(easy, CURLOPT_CAPATH, tls.connectionKey))
            try check(convoy_easy_set_string(easy, CURLOPT_PROXY_CAPATH, tls.connectionKey))
        }
        if options.route != applied.route || options.isScoped != applied.isScoped {
            try check(set(options.route, before: applied.route, isScoped: options.isScoped))
        }
        if options.needsOwnConnection != forbidsReuse {
            forbidsReuse = options.needsOwnConnection
            isFresh = false
            try check(convoy_easy_set_long(easy, CURLOPT_FRESH_CONNECT, forbidsReuse ? 1 : 0))
            try check(convoy_easy_set_long(easy, CURLOPT_FORBID_REUSE, forbidsReuse ? 1 : 0))
        }
        if options.mayTunnel != applied.mayTunnel {
            if options.mayTunnel { try setTunnelOptions() }
            try check(convoy_easy_set_long(easy, CURLOPT_NOPROGRESS, options.mayTunnel ? 0 : 1))
        }
        if options.isSecure != applied.isSecure || options.version != applied.version {
            // Prefer waiting for a connection that can be multiplexed to opening a new one.
            let mayShare = options.isSecure && options.version == .http2
            try check(convoy_easy_set_long(easy, CURLOPT_PIPEWAIT, mayShare ? 1 : 0))
        }
        // Set these options after the route, which restricts the connections that may be used.
        if options.negotiation != applied.negotiation { try options.negotiation?.apply(check, to: easy) }
        if options.receiveBufferSize != applied.receiveBufferSize,
            convoy_easy_set_long(easy, CURLOPT_BUFFERSIZE, options.receiveBufferSize) != CURLE_OK
        {
            // A handle that was removed during a transfer keeps its buffer until its next transfer has ended. The old
            // buffer size affects only the speed.
            options.receiveBufferSize = applied.receiveBufferSize
        }
        if options.connectTimeout != applied.connectTimeout {
            try check(convoy_easy_set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, options.connectTimeout))
        }
        if options.idleConnectionAge != applied.idleConnectionAge {
            try check(convoy_easy_set_long(easy, CURLOPT_MAXAGE_CONN, options.idleConnectionAge))
        }
        applied = options
    }

    /// Sets the options for a transfer with a request body.
    func setUploadOptions() throws(Refused) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        convoy_easy_set_long(easy, CURLOPT_UPLOAD_BUFFERSIZE, 128 << 10)
        try check(convoy_easy_set_pointer(easy, CURLOPT_READDATA, context))
        try check(convoy_easy_set_pointer(easy, CURLOPT_SEEKDATA, context))
        try check(
            convoy_easy_set_data_callback(easy, CURLOPT_READFUNCTION) { bytes, size, count, context in
                guard let bytes, let handle = EasyHandle.from(context), let owner = handle.owner else {
                    return Int(CURL_READFUNC_ABORT)
                }
                let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: size * count)
                switch owner.fill(buffer) {
                case .bytes(let count): return count
                case .notNow:
                    handle.isSendingPaused = true
                    return Int(CURL_READFUNC_PAUSE)
                case .abort: return Int(CURL_READFUNC_ABORT)
                }
            })
        try check(
            convoy_easy_set_seek_callback(easy) { context, offset, origin in
                guard offset == 0, origin == SEEK_SET, let handle = EasyHandle.from(context), let owner = handle.owner
                else { return Int32(CURL_SEEKFUNC_CANTSEEK) }
                return owner.rewindBody() ? Int32(CURL_SEEKFUNC_OK) : Int32(CURL_SEEKFUNC_FAIL)
            })
    }

    /// The maximum number of progress calls for a tunnel. libcurl reads the body of a proxy's refusal byte by byte in a
    /// loop, so an endless body would block every transfer.
    private static let tunnelLimit = 128 << 10

    /// Sets the options for a transfer through a proxy tunnel.
    private func setTunnelOptions() throws(Refused) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        try check(convoy_easy_set_pointer(easy, CURLOPT_XFERINFODATA, context))
        try check(
            convoy_easy_set_progress_callback(easy) { context, _, _, _, _ in
                guard let handle = EasyHandle.from(context), handle.sendCount == 0 else { return 0 }
                handle.progressCount += 1
                return handle.progressCount > EasyHandle.tunnelLimit ? 1 : 0
            })
    }
}

extension EasyHandle {
    /// The options that may differ between requests.
    struct Options: ~Copyable {
        enum Body: Equatable {
            case none
            /// A body of the given length, or of unknown length.
            case upload(length: Int64?)
        }
        var method = "GET"
        var body = Body.none
        /// The highest version to use.
        var version = HTTPVersion.http2
        /// Whether dot segments in the path are sent as written.
        var keepsDotSegments = false
        /// The TLS context, if TLS is used.
        var tls: TLSContext?
        var isSecure = false
        /// The route to the server; nil for a direct connection.
        var route: Route?
        /// Whether the address has a scope, which leaves no room for the route's key.
        var isScoped = false
        /// Whether a proxy tunnel may be used, so that a response to CONNECT may precede the head.
        var mayTunnel = false
        var receiveBufferSize = 0
        /// The idle time, in seconds, after which a connection is closed instead of being reused.
        var idleConnectionAge = 118
        /// The timeout for establishing a connection, in milliseconds.
        var connectTimeout = Int(Int32.max)
        /// The credentials with which libcurl authenticates the connection itself.
        var negotiation: Negotiation?

        /// Whether the transfer opens a connection that is closed afterwards.
        ///
        /// A server closes its connection after a request of HTTP/1.0, but its response may not say so. libcurl 7.88
        /// treats a connection to an abstract name as still connecting, and never reuses it.
        var needsOwnConnection: Bool {
            version == .http1_0 || isScoped && route?.key != nil || route?.unixSocket?.isAbstract == true
        }

        func equals(_ other: borrowing Options) -> Bool {
            body == other.body && version == other.version && tls === other.tls && isSecure == other.isSecure
                && route === other.route && isScoped == other.isScoped && mayTunnel == other.mayTunnel
                && keepsDotSegments == other.keepsDotSegments && receiveBufferSize == other.receiveBufferSize
                && idleConnectionAge == other.idleConnectionAge && connectTimeout == other.connectTimeout
                && negotiation === other.negotiation && method == other.method
        }
    }
}

/// The parsed URL of the server to which a handle's transfers go.
struct CachedCurlURL: ~Copyable {
    private var parts: OpaquePointer?
    /// The target of `parts`, which has no zone.
    private var (host, port, isSecure) = ("", 0, false)

    /// Returns the URL of a target without a zone and without a path; nil if there is not enough memory.
    mutating func url(of target: Target) -> OpaquePointer? {
        if port == target.port, isSecure == target.isSecure, host == target.host { return parts }
        host = ""
        if parts == nil { parts = curl_url() }
        guard let parts, curl_url_set(parts, CURLUPART_URL, target.description, 0) == CURLUE_OK else { return nil }
        host = target.host
        port = target.port
        isSecure = target.isSecure
        return parts
    }

    deinit { curl_url_cleanup(parts) }
}
