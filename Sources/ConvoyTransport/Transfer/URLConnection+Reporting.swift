import ConvoySupport
import Foundation
import FoundationNetworking

/// The metrics of each request, for the delegate and the trace.
extension URLConnection {
    private var isMeasured: Bool { configuration.collectsMetrics || configuration.trace != nil }

    /// Creates the clock for the next request; nil if nothing is measured.
    func makeClock(_ options: borrowing EasyHandle.Options) -> RequestClock? {
        guard isMeasured else { return nil }
        let proxy = options.route?.proxy
        defer { exchange.start = nil }
        return RequestClock(
            start: exchange.start ?? .now, method: exchange.request.method, address: exchange.address?.text ?? "",
            hasBody: exchange.body.map { $0.length != 0 } ?? false, usesTLS: options.isSecure,
            usesTunnel: options.mayTunnel || proxy?.kind == .https || proxy?.kind.isHTTP == false, isProxied: proxy != nil)
    }

    /// Reports a request to the delegate, once, even if it has to wait for a descriptor and is restarted.
    func reportRequest() {
        guard !exchange.isReported, let address = exchange.address, let header = exchange.header else { return }
        exchange.isReported = true
        delegate?.connection(
            self,
            willSend: RequestHead(
                method: exchange.request.method, address: address.text, header: header,
                bodyLength: exchange.body.map { $0.length } ?? 0, secrets: configuration.secrets))
    }

    /// The end times of the current request's completed phases; nil for a stored response, or if they are not measured.
    /// Only for the delegate's methods.
    package var phasesSoFar: TransactionPhases? {
        guard exchange.replay == nil, let handle, let clock = handle.clock else { return nil }
        return handle.phases(clock)
    }

    /// The head of the current response, even if it was not delivered; nil before it is complete, and for a stored
    /// response. Only for the delegate's methods.
    package var latestHead: ResponseHead? {
        exchange.head.isWhole && exchange.replay == nil ? receivedHead : nil
    }

    /// Records the start of a request that is ready to be sent, even if it has to wait.
    func noteStart() {
        if isMeasured, exchange.start == nil { exchange.start = .now }
    }

    /// Discards the measurement of a request that cannot be sent now. Its clock keeps running.
    func forgetTransaction() {
        exchange.start = handle?.clock?.start
        handle?.clock = nil
    }

    /// Reports the metrics of the current request, which has ended, if they are collected. Reports them only once.
    ///
    /// - Parameter failure: The reason why the response is incomplete; nil if it is complete.
    func finishTransaction(_ failure: @autoclosure () -> String? = nil) {
        if let replay = exchange.replay, let start = replay.start { return finish(replay, start) }
        guard let handle, let clock = handle.clock else { return }
        handle.clock = nil
        var metrics = handle.metrics(clock, secrets: configuration.secrets)
        if exchange.head.isWhole { metrics.statusCode = exchange.head.statusCode }
        metrics.failureReason = isCancelled ? "cancelled" : failure()
        // libcurl also counts the chunked framing.
        metrics.countOfRequestBodyBytesSent = min(metrics.countOfRequestBodyBytesSent, exchange.sentBytes)
        metrics.countOfResponseBodyBytesAfterDecoding =
            exchange.response.decoder?.decodedByteCount
            ?? max(0, metrics.countOfResponseBodyBytesReceived - Int64(exchange.response.discarded))
        handle.trace?.end(metrics)
        exchange.isReported = false
        if configuration.collectsMetrics { delegate?.connection(self, didCollect: metrics) }
    }

    /// Records that the delivery of a stored response began with the lookup in the cache.
    func noteStartOfReplay() {
        defer { exchange.start = nil }
        if configuration.collectsMetrics { exchange.replay?.start = exchange.start ?? .now }
    }

    private func finish(_ replay: StoredResponseDelivery, _ start: StartMoment) {
        replay.start = nil
        var metrics = TransactionMetrics(
            method: exchange.request.method, address: exchange.address?.text ?? "", secrets: configuration.secrets,
            startDate: start.date)
        metrics.moments.ended = start.seconds(until: MonotonicClock.now)
        metrics.statusCode = replay.statusCode
        metrics.cacheUse = CacheUse(replay.stored.use)
        metrics.countOfResponseBodyBytesAfterDecoding = exchange.response.decoder?.decodedByteCount ?? Int64(replay.position)
        delegate?.connection(self, didCollect: metrics)
    }
}

/// The trace of a transfer, shared by all its requests.
extension URLConnection {
    /// Creates the recorder for the next request; nil without a trace.
    func makeTraceRecorder() -> TraceRecorder? {
        guard let trace = configuration.trace else { return nil }
        if traceNumber == 0 { traceNumber = trace.nextTransfer() }
        return TraceRecorder(trace, transfer: traceNumber, secrets: configuration.secrets)
    }

    func traceRedirect(_ event: RedirectEvent) { handle?.trace?.note("redirect: \(event)") }

    func traceFailure(_ error: URLError) { handle?.trace?.note("failed: \(error)") }
}
