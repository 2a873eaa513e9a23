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
    @exclusivity(unchecked) var wasRefused = false
    /// Whether any line of a response has arrived.
    @exclusivity(unchecked) private var hasHeard = false
    @exclusivity(unchecked) var folding = FoldedLineGuard()
    /// The recorder of the current transfer; nil without a trace.
    @exclusivity(unchecked) var trace: TraceRecorder?
    @exclusivity(unchecked) var hasTraceCallback = false
    /// The clock of the current request; nil if nothing is measured.
    @exclusivity(unchecked) var clock: RequestClock?
    @exclusivity(unchecked) var hasLookUpCallback = false
    /// Whether libcurl keeps bytes that the owner refused.
    ///
    /// libcurl 7.88 does not free them if the transfer is stopped while others use its HTTP/2 connection. It would pass
    /// them to the handle's next transfer, which would then succeed with bytes of a different resource.
    @exclusivity(unchecked) var holdsBytes = false
    @exclusivity(unchecked) var applied = Options()
    /// Whether each transfer uses a new connection.
    @exclusivity(unchecked) var forbidsReuse = false
    /// Whether the current transfer opens a connection, because an idle one may be dead.
    @exclusivity(unchecked) var isFresh = false
    /// The results for the addresses of the current transfer.
    @exclusivity(unchecked) var addresses = ConnectAttempts()
    /// The request header, retained while libcurl uses its lists.
    @exclusivity(unchecked) var header: RequestHeader?
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
    /// The origin of the last request whose target was sent as written.
    @exclusivity(unchecked) var origin = CachedCurlURL()
    /// Whether libcurl has the origin instead of a URL.
    @exclusivity(unchecked) var hasOrigin = false
    /// Whether libcurl allows Convoy to evaluate server trust, that is, whether it was built with OpenSSL.
    @exclusivity(unchecked) var decidesTrust = false
    /// The last handshake of the current transfer; nil if it uses an existing connection.
    @exclusivity(unchecked) var handshake: TLSHandshake?
    /// The number of calls to the progress callback before libcurl sent the current request.
    @exclusivity(unchecked) var progressCount = 0
    /// The number of times that libcurl was about to send the current request.
    @exclusivity(unchecked) var sendCount = 0
    let errorText: UnsafeMutablePointer<CChar>

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

    // MARK: Called by libcurl

    /// Records that the request is about to be sent to an address. Returns false to abort the transfer.
    func maySend(to address: UnsafeMutablePointer<CChar>?) -> Bool {
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
    func take(_ lines: UnsafeMutableRawBufferPointer) -> Bool {
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
    func take(block: UnsafeRawBufferPointer) -> Int {
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

    // MARK: Results

    /// An error thrown if an option cannot be set.
    struct Refused: Error { let code: CURLcode }

    func check(_ code: CURLcode) throws(Refused) {
        guard code == CURLE_OK else { throw Refused(code: code) }
    }

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
