import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// A driver that runs libcurl's multi interface on a run loop, with `curl_multi_socket_action(3)`.
///
/// Used by the owner of the run loop only, except for its creation.
final class MultiHandle: @unchecked Sendable {
    let runLoop: NetworkRunLoop
    let multi: UnsafeMutableRawPointer
    @exclusivity(unchecked) var timer: RunLoopTimer?
    /// The idle exchanges, with their handles and buffers.
    @exclusivity(unchecked) private var idle: [NetworkExchange] = []
    /// The running handles, each at its `position`.
    @exclusivity(unchecked) var running: [EasyHandle] = []
    /// The last header that was created here.
    @exclusivity(unchecked) private var lastHeader: RequestHeader?
    @exclusivity(unchecked) var needsTimeoutAction = false
    @exclusivity(unchecked) var mayHaveMessages = false
    /// The number of times in a row that libcurl has requested another call immediately, without an event in between.
    @exclusivity(unchecked) var idleCalls = 0
    /// Whether a call requested by libcurl has been delayed.
    @exclusivity(unchecked) var isPutOff = false
    @exclusivity(unchecked) private var isClosed = false
    /// The transfers that fail because they could not be paused or resumed for lack of memory.
    @exclusivity(unchecked) var broken: [EasyHandle] = []
    /// The transfers that end with this turn, unless libcurl ends them itself.
    @exclusivity(unchecked) var complete: [EasyHandle] = []
    @exclusivity(unchecked) var depth = 0
    /// The number of transfers that were running after the last action, as counted by libcurl.
    @exclusivity(unchecked) var stillRunning: Int32 = 0
    let sockets: SocketTable
    let shares: TurnShares
    /// The number of requests for which a cache is reading its files.
    @exclusivity(unchecked) var lookUpCount = 0
    @exclusivity(unchecked) var endedCount = 0
    /// The queue of transfers waiting for a descriptor.
    var descriptorQueue: DescriptorQueue {
        if let madeQueue { return madeQueue }
        let queue = DescriptorQueue(multi: self)
        madeQueue = queue
        return queue
    }
    /// The queue of transfers waiting for a descriptor; nil until a transfer has waited.
    @exclusivity(unchecked) private(set) var madeQueue: DescriptorQueue?

    private static let isLibraryReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK

    init(runLoop: NetworkRunLoop) throws {
        errno = 0
        guard Self.isLibraryReady, let multi = curl_multi_init() else {
            // Newer libcurl versions need a descriptor, and do not report why it could not be opened.
            let code = errno
            throw RunLoopError(call: "curl_multi_init", number: DescriptorLimit.meansShortage(code) ? code : ENOMEM)
        }
        Negotiation.announcement
        self.runLoop = runLoop
        self.multi = multi
        sockets = SocketTable(runLoop: runLoop)
        shares = TurnShares(runLoop: runLoop)
        let context = Unmanaged.passUnretained(self).toOpaque()
        var codes = [
            convoy_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, context),
            convoy_multi_set_pointer(multi, CURLMOPT_TIMERDATA, context),
        ]
        codes.append(
            convoy_multi_set_socket_callback(multi) { easy, socket, what, context, _ in
                guard let context else { return 0 }
                Unmanaged<MultiHandle>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.watch(socket, what: what) }
                if what != CURL_POLL_REMOVE, let easy {
                    EasyHandle.noteSocket(socket, of: easy, isReading: what == CURL_POLL_IN)
                }
                return 0
            })
        codes.append(
            convoy_multi_set_timer_callback(multi) { _, milliseconds, context in
                guard let context else { return 0 }
                Unmanaged<MultiHandle>.fromOpaque(context)._withUnsafeGuaranteedRef { $0.setTimeout(milliseconds) }
                return 0
            })
        // Without these options, no transfer would ever make progress.
        guard codes.allSatisfy({ $0 == CURLM_OK }) else {
            isClosed = true
            curl_multi_cleanup(multi)
            throw RunLoopError(call: "curl_multi_setopt", number: ENOMEM)
        }
        adaptConnectionLimit()
        timer = RunLoopTimer { [unowned self] in
            needsTimeoutAction = true
        }
        runLoop.driver = self
    }

    /// The maximum number of connections, including those in use, before libcurl closes idle ones.
    @exclusivity(unchecked) private var connectionLimit = 0

    /// Returns the limit for the given number of running transfers: a quarter of the descriptors that the process may
    /// open, from 64 to 1,024. The limit is higher if so many transfers run that libcurl would close connections that
    /// the next ones need. libcurl's default of four per transfer could use up all descriptors.
    static func connectionLimit(running: Int, descriptors: Int) -> Int {
        max(min(max(64, descriptors / 4), 1024), min(2 * running, descriptors / 4 * 3))
    }

    /// Raises the limit if more transfers are running than it allows connections.
    private func adaptConnectionLimit() {
        guard running.count >= connectionLimit else { return }
        let adapted = Self.connectionLimit(
            running: running.count, descriptors: min(DescriptorLimit.soft ?? 1024, 1 << 20))
        guard adapted > connectionLimit else { return }
        connectionLimit = adapted
        convoy_multi_set_long(multi, CURLMOPT_MAXCONNECTS, adapted)
    }

    /// Ends every transfer and frees all handles.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        runLoop.driver = nil
        for handle in running { curl_multi_remove_handle(multi, handle.easy) }
        for handle in idle.map(\.handle) + running { handle.cancelTimer(on: runLoop) }
        madeQueue?.removeAll()
        shares.cancel()
        running = []
        idle = []
        curl_multi_cleanup(multi)
    }

    // MARK: Handles

    /// Returns an idle or new exchange; nil if there is not enough memory.
    func takeExchange() -> NetworkExchange? {
        idle.popLast() ?? EasyHandle(sockets: sockets, shares: shares).map { NetworkExchange($0, multi: self) }
    }

    /// Returns the header of a request, reusing that of the last request if the fields are the same.
    ///
    /// - Parameters:
    ///   - identity: Whether to request the body without an encoding.
    ///   - omitsExpect: Whether to omit the request's `Expect`.
    ///   - authorization: The value of `Authorization` that replaces the request's own.
    ///   - proxyAuthorization: The value of `Proxy-Authorization` that replaces the request's own.
    func header(
        of request: TransferRequest, addingUserAgent: Bool, identity: Bool = false, omitsExpect: Bool = false,
        authorization: String?, proxyAuthorization: String?, cookie: [UInt8]?
    ) throws(URLError) -> RequestHeader {
        let isChanged =
            identity || omitsExpect || authorization != nil || proxyAuthorization != nil || cookie != nil
        if !isChanged, let header = request.header { return header }
        var source = request.headerSource(addingUserAgent: addingUserAgent)
        if identity { source.asksForIdentity = true }
        if omitsExpect { source.omitsExpect = true }
        if let authorization { source.authorization = authorization }
        if let proxyAuthorization { source.proxyAuthorization = proxyAuthorization }
        if let cookie { source.cookie = cookie }
        return try header(of: source, url: request.url)
    }

    /// Returns the header for the given parts.
    func header(of source: RequestHeader.Source, url: URL?) throws(URLError) -> RequestHeader {
        if let lastHeader, lastHeader.source == source { return lastHeader }
        let header = try RequestHeader(source, url: url)
        lastHeader = header
        return header
    }

    /// Makes an exchange idle again. Its handle keeps its buffers and options, but no state of its last transfer.
    func giveBack(_ exchange: NetworkExchange) {
        let handle = exchange.handle
        // A running handle must not be used for the next request.
        if handle.position >= 0 { stop(handle) }
        handle.owner = nil
        handle.tlsOfConnection = nil
        handle.trace = nil
        handle.clock = nil
        if idle.count < 256 { idle.append(exchange) } else { handle.cancelTimer(on: runLoop) }
    }

    /// Starts the transfer for which the handle was prepared.
    ///
    /// - Parameters:
    ///   - port: The port of the server or the proxy to which the request is sent.
    ///   - isAlone: Whether the request must use a new connection.
    ///   - mayRepeat: Whether the request can be sent again if its connection is dead.
    func start(_ handle: EasyHandle, to port: Int, isAlone: Bool, mayRepeat: @autoclosure () -> Bool) -> CURLMcode {
        guard !isClosed else { return CURLM_BAD_HANDLE }
        noteEvent()
        let isFresh = isAlone || CurlQuirks.trustsIdleConnections && sockets.hasLostConnection(to: port) && !mayRepeat()
        if isFresh != handle.isFresh {
            handle.isFresh = isFresh
            convoy_easy_set_long(handle.easy, CURLOPT_FRESH_CONNECT, isFresh || handle.forbidsReuse ? 1 : 0)
        }
        let code = curl_multi_add_handle(multi, handle.easy)
        if code == CURLM_OK {
            handle.position = running.count
            running.append(handle)
            adaptConnectionLimit()
        }
        return code
    }

    /// Removes a handle from `running`. Returns false if it is not running.
    func leaveRunning(_ handle: EasyHandle) -> Bool {
        let position = handle.position
        guard position >= 0 else { return false }
        handle.position = -1
        handle.endsAfterTurn = false
        if handle.isResting { endRest(of: handle) }
        let last = running.removeLast()
        if last !== handle {
            running[position] = last
            last.position = position
        }
        return true
    }

    /// Removes a transfer from libcurl in any state. Must not be called from a libcurl callback.
    ///
    /// - Parameter closing: Whether to close its connection if no other transfer uses it. Otherwise an HTTP/2
    ///   connection is kept and the rest of the stream is not read, which a server with much to send does not detect.
    func stop(_ handle: EasyHandle, closing: Bool = false) {
        let isResting = handle.isResting
        guard leaveRunning(handle) else { return }
        if closing { convoy_easy_set_long(handle.easy, CURLOPT_FORBID_REUSE, 1) }
        defer {
            if closing, !handle.forbidsReuse { convoy_easy_set_long(handle.easy, CURLOPT_FORBID_REUSE, 0) }
        }
        if handle.holdsBytes || isResting {
            // Without an owner, the bytes are discarded, both from the handle and from the shared connection.
            handle.owner = nil
            setPaused(handle, receiving: false, sending: false)
            handle.holdsBytes = true
        }
        leaveConnection(handle)
    }

    /// Removes a handle from libcurl. Every transfer leaves its connection in this method, regardless of how the
    /// transfer ended.
    ///
    /// From then on, an idle HTTP/1 connection is watched: an unsolicited response would be mistaken for the response
    /// to the next request.
    func leaveConnection(_ handle: EasyHandle) {
        let isExclusive = handle.isPlain || handle.speaksHTTP1
        // libcurl reports no socket for a transfer that never had to wait.
        if isExclusive, handle.usesUnknownSocket { handle.socket = convoy_easy_active_socket(handle.easy) }
        curl_multi_remove_handle(multi, handle.easy)
        if isExclusive {
            sockets.noteIdle(
                of: handle.socket, hasUnreadBytes: handle.tlsOfConnection?.hasUnreadBytes == true, handler: self)
        }
        handle.tlsOfConnection = nil
        endedCount += 1
    }

    /// Records that the server has not processed the request of a running transfer.
    func noteRefusal(of easy: UnsafeMutableRawPointer, _ reason: RefusedStreams.Reason) {
        running.first { $0.easy == easy }?.refusal = reason
    }

    private func endRest(of handle: EasyHandle) {
        handle.isResting = false
        sockets.setResting(handle.socket, false)
    }

    /// Ends a transfer at the end of this turn as if libcurl had finished it. Can be called from libcurl callbacks.
    func endAfterTurn(_ handle: EasyHandle) {
        guard !handle.endsAfterTurn else { return }
        handle.endsAfterTurn = true
        complete.append(handle)
    }

    /// Whether any running transfer can end without waiting for its receiver or for a descriptor.
    var canTransferEnd: Bool { running.contains { $0.owner?.canEnd == true } }

    /// The number of times that a socket could not be opened for lack of a descriptor.
    var descriptorShortages: Int { sockets.shortages }

    /// Resumes a transfer that a callback has paused, or pauses a direction. May call back.
    func setPaused(_ handle: EasyHandle, receiving: Bool, sending: Bool) {
        let heldBytes = handle.holdsBytes
        // The callback sets the flag again if it refuses bytes again. A paused transfer may have bytes that no callback
        // has received.
        handle.holdsBytes = receiving
        if handle.isResting { endRest(of: handle) }
        handle.isSendingPaused = sending
        if receiving { handle.mayMergeLines = true }
        noteEvent()
        depth += 1
        let code = curl_easy_pause(handle.easy, (receiving ? CURLPAUSE_RECV : 0) | (sending ? CURLPAUSE_SEND : 0))
        depth -= 1
        // The transfer has ended, but its owner has not been called yet. libcurl delivers nothing more and keeps its
        // bytes.
        if code == CURLE_BAD_FUNCTION_ARGUMENT { handle.holdsBytes = heldBytes }
        // The state is unchanged, so the transfer would wait until its timeout.
        if code == CURLE_OUT_OF_MEMORY { broken.append(handle) }
        mayHaveMessages = true
    }

    /// The exchanges of the running transfers.
    var runningExchanges: some Sequence<NetworkExchange> { running.lazy.compactMap(\.owner) }

    /// Whether the caller is inside a libcurl callback, from which libcurl must not be called.
    var isInLibcurl: Bool { depth > 0 }
}
