import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// A libcurl easy handle, reused for successive transfers.
///
/// Its callbacks are set once. Other options are set only if they differ from the handle's previous ones, because most
/// requests of a program are alike. Used on the network thread only.
final class EasyHandle: RestingTransfer {
    /// The result of passing received bytes to the owner.
    enum Reception { case taken, notNow, abort }
    /// The result of requesting bytes to send from the owner.
    enum Supply { case bytes(Int), notNow, abort }

    @exclusivity(unchecked) private(set) var easy: UnsafeMutableRawPointer
    /// The index among the running handles; -1 while the handle is not running.
    @exclusivity(unchecked) var position = -1
    /// Whether the current transfer ends with this turn of the run loop; see ``MultiHandle/endAfterTurn(_:)``.
    @exclusivity(unchecked) var endsAfterTurn = false
    /// The socket of the current transfer's connection, or -1.
    @exclusivity(unchecked) var socket: curl_socket_t = -1
    /// Whether the request was sent on an unknown socket. libcurl never requested events for that socket, because the
    /// transfer was paused before it had to wait for anything.
    var usesUnknownSocket: Bool { socket < 0 && mayHaveBeenSent }
    /// Whether libcurl has a connection for the request and may have sent part of it.
    var mayHaveBeenSent: Bool { sendCount > 0 }
    /// Whether the current transfer uses plain text, so that its connection carries no other request concurrently.
    var isPlain: Bool { !applied.isSecure }
    /// The TLS handshake of the connection on which the request was sent; nil for plain text.
    @exclusivity(unchecked) var tlsOfConnection: TLSHandshake?
    /// The owner of the transfer. It is retained for the callbacks, and released when the handle is returned.
    var owner: NetworkExchange? {
        get {
            switch ownership {
            case .some(let ownership): ownership.owner
            case .none: nil
            }
        }
        set { ownership = newValue.map { Ownership(owner: $0) } }
    }
    @exclusivity(unchecked) private var ownership: Ownership?

    /// A reference that is used in place. A copy would be retained and released for each line of a head.
    private struct Ownership: ~Copyable {
        let owner: NetworkExchange
    }

    /// Whether the handle cannot be reused: libcurl rejected or keeps one of its options, sent one of its requests
    /// twice (libcurl 7.88 counts this over the life of a handle, and fails transfers after five), or still keeps bytes
    /// that the owner refused.
    ///
    /// For `hasHeard`, see ``FoldedLineGuard``.
    var isWornOut: Bool {
        wasRefused || applied.negotiation != nil || sendCount > 1 || holdsBytes
            || hasHeard && CurlQuirks.foldedLines == .newHandle
    }
    @exclusivity(unchecked) private var wasRefused = false
    /// Whether any line of a response has arrived.
    @exclusivity(unchecked) private var hasHeard = false
    @exclusivity(unchecked) private var folding = FoldedLineGuard()
    /// The recorder of the current transfer; nil without a trace.
    @exclusivity(unchecked) var trace: TraceRecorder?
    @exclusivity(unchecked) private var hasTraceCallback = false
    /// The clock of the current request; nil if nothing is measured.
    @exclusivity(unchecked) var clock: RequestClock?
    @exclusivity(unchecked) private var hasLookUpCallback = false
    /// Whether libcurl keeps bytes that the owner refused.
    ///
    /// libcurl 7.88 does not free them if the transfer is stopped while others use its HTTP/2 connection. It would pass
    /// them to the handle's next transfer, which would then succeed with bytes of a different resource.
    @exclusivity(unchecked) var holdsBytes = false
    @exclusivity(unchecked) private(set) var applied = Options()
    /// Whether each transfer uses a new connection.
    @exclusivity(unchecked) var forbidsReuse = false
    /// Whether the current transfer opens a connection, because an idle one may be dead.
    @exclusivity(unchecked) var isFresh = false
    /// The results for the addresses of the current transfer.
    @exclusivity(unchecked) var addresses = ConnectAttempts()
    /// The request header, retained while libcurl uses its lists.
    @exclusivity(unchecked) private var header: RequestHeader?
    let sockets: SocketTable
    private let shares: TurnShares
    /// The number of bytes received in the current turn of the run loop.
    @exclusivity(unchecked) var use = TurnShares.Use()
    /// Whether the transfer is paused because it has used up its share of a turn.
    @exclusivity(unchecked) var isResting = false
    /// The reason why the server has not processed the current request, so that it can be sent again; nil if it may
    /// have processed it.
    @exclusivity(unchecked) var refusal: RefusedStreams.Reason?
    /// Whether libcurl is waiting for bytes of the request's body.
    @exclusivity(unchecked) var isSendingPaused = false
    /// Whether libcurl may pass several lines of a head in one call, because receiving has been paused.
    @exclusivity(unchecked) var mayMergeLines = false
    private let errorText: UnsafeMutablePointer<CChar>

    /// - Parameters:
    ///   - sockets: The table that opens and closes the sockets of connections made for this handle, and outlives them.
    ///   - shares: The shares that limit how much the handle receives in a turn.
    init?(sockets: SocketTable, shares: TurnShares) {
        guard let easy = curl_easy_init() else { return nil }
        self.easy = easy
        self.sockets = sockets
        self.shares = shares
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.pointee = 0
        do throws(Refused) { try setPermanentOptions() } catch { return nil }
    }

    deinit {
        curl_easy_cleanup(easy)
        errorText.deallocate()
    }

    /// Replaces libcurl's handle if it cannot be reused. Returns false if there is not enough memory.
    func renew() -> Bool {
        guard isWornOut else { return true }
        guard let new = curl_easy_init() else { return false }
        curl_easy_cleanup(easy)
        easy = new
        header = nil
        hasOrigin = false
        applied = Options()
        wasRefused = false
        hasHeard = false
        folding = FoldedLineGuard()
        hasTraceCallback = false
        hasLookUpCallback = false
        holdsBytes = false
        forbidsReuse = false
        isFresh = false
        sendCount = 0
        do throws(Refused) {
            try setPermanentOptions()
            return true
        } catch {
            wasRefused = true
            return false
        }
    }

    /// Closes the connection after the current transfer. The handle keeps the option, so it is not reused.
    func closeConnectionAtEnd() {
        convoy_easy_set_long(easy, CURLOPT_FORBID_REUSE, 1)
        wasRefused = true
    }

    // MARK: The timer

    /// The handle's timer, reused for successive transfers. It is not cancelled when a transfer ends: the deadline of
    /// the next one is usually later, and when the timer fires, the owner checks the clock.
    private var timer: RunLoopTimer {
        if let madeTimer { return madeTimer }
        let timer = RunLoopTimer { [unowned self] in owner?.timerDidFire() }
        madeTimer = timer
        return timer
    }
    @exclusivity(unchecked) private var madeTimer: RunLoopTimer?

    /// Schedules the timer, unless it is already scheduled for an earlier time.
    func schedule(at deadline: MonotonicTime, on runLoop: NetworkRunLoop) {
        let timer = timer
        if !timer.isScheduled || timer.deadline > deadline { runLoop.schedule(timer, at: deadline) }
    }

    /// Cancels the timer of a handle that is no longer used.
    func cancelTimer(on runLoop: NetworkRunLoop) {
        if let madeTimer { runLoop.cancel(madeTimer) }
    }

    // MARK: Preparation

    /// Sets the options that every transfer needs. Options that only some transfers need are set for those transfers,
    /// because setting them for every new handle takes time. All results are checked: without its callback, libcurl
    /// would interpret the context pointer as a C `FILE`.
    private func setPermanentOptions() throws(Refused) {
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

    /// Records that the request is about to be sent to an address. Returns false to abort the transfer.
    private func maySend(to address: UnsafeMutablePointer<CChar>?) -> Bool {
        guard ownership != nil, mayUseConnection(to: address) else { return false }
        sendCount += 1
        // The connection may differ from that of an earlier attempt.
        socket = -1
        if applied.isSecure { noteTLS() }
        if let clock { noteReady(clock) }
        defer { refusal = nil }
        return sendCount == 1 || owner?.maySendAgain() == true
    }

    /// Passes lines of the head to the owner. Returns false to abort the transfer.
    ///
    /// libcurl passes one line per call. But if it was resumed and paused again before it ran, it reads once more,
    /// keeps the lines that it reads, and passes all of them in a single call on the next resumption.
    private func take(_ lines: UnsafeMutableRawBufferPointer) -> Bool {
        hasHeard = true
        guard mayMergeLines else { return take(line: lines) }
        var rest = lines
        while let start = rest.baseAddress, let end = memchr(start, 0x0A, rest.count) {
            let length = end - start + 1
            guard length < rest.count else { break }
            guard take(line: UnsafeMutableRawBufferPointer(start: start, count: length)) else { return false }
            rest = UnsafeMutableRawBufferPointer(start: start + length, count: rest.count - length)
        }
        return take(line: rest)
    }

    private func take(line: UnsafeMutableRawBufferPointer) -> Bool {
        // Before the request is sent, lines belong to a proxy's response to CONNECT.
        if sendCount == 0, applied.mayTunnel {
            return owner?.takeTunnelLine(UnsafeRawBufferPointer(line)) ?? false
        }
        if CurlQuirks.foldedLines == .hidingOfLine { folding.pass(line, easy) }
        // libcurl calls this within its own functions, during which no handle is returned, so the owner cannot change.
        return switch ownership {
        case .some(let ownership): ownership.owner.takeHeadLine(UnsafeRawBufferPointer(line))
        case .none: false
        }
    }

    /// Passes bytes of the body to the owner. Returns the result for libcurl's callback.
    private func take(block: UnsafeRawBufferPointer) -> Int {
        let reception: Reception? =
            switch ownership {
            case .some(let ownership): ownership.owner.take(block)
            case .none: nil
            }
        switch reception {
        case .taken:
            if shares.charge(block.count, to: &use) { rest() }
            return block.count
        case .notNow:
            holdsBytes = true
            return Int(CURL_WRITEFUNC_PAUSE)
        case .abort: return block.count == 0 ? 1 : 0
        case nil: return 0
        }
    }

    /// Pauses receiving until the next turn. Called within a callback.
    private func rest() {
        // A transfer that ends with this turn receives nothing more, and need not be paused.
        guard !isResting, !endsAfterTurn else { return }
        // Without a request body, pause both directions: libcurl runs a transfer again immediately if it may send.
        let isSending = applied.body != .none && !isSendingPaused
        guard curl_easy_pause(easy, isSending ? CURLPAUSE_RECV : CURLPAUSE_ALL) == CURLE_OK else { return }
        isResting = true
        sockets.setResting(socket, true)
        shares.noteRest(of: self)
    }

    func endRest(in multi: MultiHandle) { multi.setPaused(self, receiving: false, sending: isSendingPaused) }

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

    /// Returns the `EasyHandle` of a libcurl handle.
    static func of(_ easy: UnsafeMutableRawPointer) -> EasyHandle? {
        var context: UnsafeMutableRawPointer?
        guard convoy_easy_get_pointer(easy, CURLINFO_PRIVATE, &context) == CURLE_OK else { return nil }
        return from(context)
    }

    /// Stores the socket of a libcurl handle.
    static func noteSocket(_ socket: curl_socket_t, of easy: UnsafeMutableRawPointer, isReading: Bool) {
        var context: UnsafeMutableRawPointer?
        guard convoy_easy_get_pointer(easy, CURLINFO_PRIVATE, &context) == CURLE_OK, let context else { return }
        Unmanaged<EasyHandle>.fromOpaque(context)._withUnsafeGuaranteedRef { handle in
            handle.socket = socket
            if isReading { handle.clock?.noteReading() }
        }
    }

    static func from(_ context: UnsafeMutableRawPointer?) -> EasyHandle? {
        context.map { Unmanaged<EasyHandle>.fromOpaque($0).takeUnretainedValue() }
    }

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
    @exclusivity(unchecked) private var origin = CachedCurlURL()
    @exclusivity(unchecked) private var hasOrigin = false

    /// Whether libcurl allows Convoy to evaluate server trust, that is, whether it was built with OpenSSL.
    @exclusivity(unchecked) private(set) var decidesTrust = false
    /// The last handshake of the current transfer; nil if it uses an existing connection.
    @exclusivity(unchecked) var handshake: TLSHandshake?

    /// The number of calls to the progress callback before libcurl sent the current request.
    @exclusivity(unchecked) private var progressCount = 0
    /// The maximum number of progress calls for a tunnel. libcurl reads the body of a proxy's refusal byte by byte in a
    /// loop, so an endless body would block every transfer.
    private static let tunnelLimit = 128 << 10

    /// The number of times that libcurl was about to send the current request.
    @exclusivity(unchecked) private var sendCount = 0

    /// An error thrown if an option cannot be set.
    struct Refused: Error { let code: CURLcode }

    func check(_ code: CURLcode) throws(Refused) {
        guard code == CURLE_OK else { throw Refused(code: code) }
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

    // MARK: Results

    /// libcurl's message about the failure of the last transfer; empty if libcurl provided none.
    var failureText: String { String(cString: errorText) }

    func long(_ info: CURLINFO) -> Int {
        var value = 0
        return convoy_easy_get_long(easy, info, &value) == CURLE_OK ? value : 0
    }

    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        return convoy_easy_get_offset(easy, info, &value) == CURLE_OK ? Int64(value) : 0
    }
}
