import CCurl
import ConvoySupport

/// The turns of the run loop: passes events and due timeouts to libcurl, and the ends of transfers to their owners.
extension MultiHandle: FileEventHandler, RunLoopDriver {
    /// Whether no transfer is running, and at most one request waits for a cache. If several do, the cache's thread only
    /// reads, and the loop's thread delivers.
    var isIdle: Bool { running.isEmpty && lookUpCount <= 1 }

    func enterThread() { RefusedStreams.enter(self) }

    func leaveThread() { RefusedStreams.enter(nil) }

    /// Makes libcurl connect or send. A transfer that has already ended is reported on the loop's thread.
    ///
    /// The calling thread may not block SIGPIPE, but libcurl sends with `MSG_NOSIGNAL`, also over TLS.
    func beginInPlace() -> Bool {
        if needsTimeoutAction {
            needsTimeoutAction = false
            act(on: CURL_SOCKET_TIMEOUT, 0)
        }
        return needsTimeoutAction || stillRunning < running.count || endedCount > 0
            || !(complete.isEmpty && broken.isEmpty && sockets.stalled.isEmpty)
    }

    func fileDescriptor(_ descriptor: Int32, isReadyFor events: FileEvents) {
        guard sockets.isWatched(descriptor) else {
            return sockets.noteUnwanted(descriptor, mayBeInUse: running.contains(where: \.usesUnknownSocket))
        }
        noteEvent()
        var mask: Int32 = 0
        if events.contains(.readable) { mask |= CURL_CSELECT_IN }
        if events.contains(.writable) { mask |= CURL_CSELECT_OUT }
        if events.contains(.failed) { mask |= CURL_CSELECT_ERR }
        act(on: descriptor, mask)
    }

    private func act(on socket: curl_socket_t, _ mask: Int32) {
        stillRunning = 0
        depth += 1
        let code = curl_multi_socket_action(multi, socket, mask, &stillRunning)
        depth -= 1
        // A ready socket is reported again, but an expired timeout is not.
        if code != CURLM_OK, socket == CURL_SOCKET_TIMEOUT { needsTimeoutAction = true }
        mayHaveMessages = true
    }

    func watch(_ socket: curl_socket_t, what: Int32) {
        var events: FileEvents = []
        if what == CURL_POLL_IN || what == CURL_POLL_INOUT { events.insert(.readable) }
        if what == CURL_POLL_OUT || what == CURL_POLL_INOUT { events.insert(.writable) }
        sockets.watch(socket, for: events, handler: self)
    }

    func setTimeout(_ milliseconds: Int) {
        guard let timer else { return }
        if milliseconds < 0 {
            runLoop.cancel(timer)
        } else if milliseconds == 0 {
            // libcurl must not be called within this callback, and the end of this turn is early enough.
            needsTimeoutAction = true
            runLoop.cancel(timer)
        } else {
            runLoop.schedule(timer, at: NetworkRunLoop.now + UInt64(milliseconds) * 1_000_000)
        }
    }

    func endTurn() {
        var calls = 0
        shares.beginTurn()
        while let transfer = shares.takeDue() { transfer.endRest(in: self) }
        while true {
            if !sockets.stalled.isEmpty { wakeStalled() }
            if needsTimeoutAction, calls < Self.callsOfTurn {
                needsTimeoutAction = false
                calls += 1
                idleCalls += 1
                act(on: CURL_SOCKET_TIMEOUT, 0)
            } else if !complete.isEmpty {
                drainMessages()
                while let handle = complete.popLast() {
                    // The handle may have been reused for a different transfer since.
                    if handle.endsAfterTurn { finish(handle, with: CURLE_OK) }
                }
            } else if !mayHaveMessages {
                break
            }
            mayHaveMessages = false
            drainMessages()
        }
        if needsTimeoutAction { putOffCall() }
        if endedCount > 0 {
            madeQueue?.goOn(with: endedCount)
            endedCount = 0
        }
    }

    /// Resumes transfers that were denied a socket. libcurl 7.88 would try the next address only after another event of
    /// the transfer.
    private func wakeStalled() {
        let stalled = sockets.stalled
        sockets.stalled = []
        for handle in stalled where handle.position >= 0 {
            depth += 1
            // Only a change in the pause state makes libcurl try the next address. No bytes are transferred yet.
            curl_easy_pause(handle.easy, CURLPAUSE_RECV)
            curl_easy_pause(handle.easy, CURLPAUSE_CONT)
            depth -= 1
        }
    }

    /// The maximum number of immediate calls in one turn if libcurl keeps requesting them.
    private static let callsOfTurn = 8
    /// The number of consecutive calls without an event after which further calls are delayed.
    private static let patience = 64

    /// Delays the next call. libcurl 8.14 repeatedly requests another call immediately while an HTTP/2 transfer whose
    /// end has arrived is paused. The transfer is resumed in a later turn; until then, occasional calls are sufficient.
    private func putOffCall() {
        guard let timer else { return }
        needsTimeoutAction = false
        isPutOff = true
        let milliseconds = UInt64(min(10, idleCalls / Self.patience))
        runLoop.schedule(timer, at: NetworkRunLoop.now + milliseconds * 1_000_000)
    }

    /// Records an event, after which libcurl must be called.
    func noteEvent() {
        idleCalls = 0
        if isPutOff { needsTimeoutAction = true }
        isPutOff = false
    }

    private func drainMessages() {
        while let handle = broken.popLast() { finish(handle, with: CURLE_OUT_OF_MEMORY) }
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = convoy_message_easy(message) else { continue }
            let code = convoy_message_result(message)
            if let handle = EasyHandle.of(easy) { finish(handle, with: code) }
        }
    }

    private func finish(_ handle: EasyHandle, with code: CURLcode) {
        guard leaveRunning(handle) else { return }
        noteEvent()
        leaveConnection(handle)
        handle.clock?.noteEnd()
        handle.owner?.didFinish(with: code)
    }
}
