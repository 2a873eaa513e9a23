import ConvoySupport
import Foundation
import FoundationNetworking

/// The metrics of each request, for the delegate and the trace.
extension RequestChain {
    private var isMeasured: Bool { configuration.collectsMetrics || configuration.trace != nil }

    /// Creates the clock for the next request; nil if nothing is measured.
    func makeClock(_ options: borrowing EasyHandle.Options) -> RequestClock? {
        guard isMeasured else { return nil }
        let proxy = options.route?.proxy
        defer { step.start = nil }
        return RequestClock(
            start: step.start ?? .now, method: step.request.method, address: step.address?.text ?? "",
            hasBody: network?.body.map { $0.length != 0 } ?? false, usesTLS: options.isSecure,
            usesTunnel: options.mayTunnel || proxy?.kind == .https || proxy?.kind.isHTTP == false, isProxied: proxy != nil)
    }

    /// Reports a request to the delegate, once, even if it has to wait for a descriptor and is restarted.
    func reportRequest() {
        guard !step.isReported, let address = step.address, let header = step.header else { return }
        step.isReported = true
        delegate?.connection(
            self,
            willSend: RequestHead(
                method: step.request.method, address: address.text, header: header,
                bodyLength: network?.body.map { $0.length } ?? 0, secrets: configuration.secrets,
                maximumVersion: configuration.maximumHTTPVersion))
    }

    /// The end times of the current request's completed phases; nil for a stored response, or if they are not measured.
    var phasesSoFar: TransactionPhases? {
        guard step.stored == nil, let handle = network?.handle, let clock = handle.clock else { return nil }
        return handle.phases(clock)
    }

    /// The head of the current response, even if it was not delivered; nil before it is complete, and for a stored
    /// response.
    var latestHead: ResponseHead? {
        step.stored == nil ? network.flatMap { $0.isHeadWhole ? $0.receivedHead(self) : nil } : nil
    }

    /// Records the start of a request that is ready to be sent, even if it has to wait.
    func noteStart() {
        if isMeasured, step.start == nil { step.start = .now }
    }

    /// Discards the measurement of a request that cannot be sent now. Its clock keeps running.
    func forgetTransaction() {
        step.start = network?.handle.clock?.start
        network?.handle.clock = nil
    }

    /// Reports the metrics of the current request, which has ended, if they are collected. Reports them only once.
    ///
    /// - Parameter failure: The reason why the response is incomplete; nil if it is complete.
    func finishTransaction(_ failure: @autoclosure () -> String? = nil) {
        if let stored = step.stored, let start = stored.start { return finish(stored, start) }
        guard let network, let clock = network.handle.clock else { return }
        let handle = network.handle
        handle.clock = nil
        var metrics = handle.metrics(clock, secrets: configuration.secrets)
        if network.isHeadWhole { metrics.statusCode = network.response.head.statusCode }
        metrics.failureReason = isCancelled ? "cancelled" : failure()
        // libcurl also counts the chunked framing.
        metrics.countOfRequestBodyBytesSent = min(metrics.countOfRequestBodyBytesSent, network.sentBytes)
        metrics.countOfResponseBodyBytesAfterDecoding =
            step.decoder?.decodedByteCount
            ?? max(0, metrics.countOfResponseBodyBytesReceived - Int64(network.discarded))
        handle.trace?.end(metrics)
        step.isReported = false
        if configuration.collectsMetrics { delegate?.connection(self, didCollect: metrics, of: latestHead) }
    }

    /// Records that the delivery of a stored response began with the lookup in the cache.
    func noteStartOfReplay() {
        defer { step.start = nil }
        if configuration.collectsMetrics { step.stored?.start = step.start ?? .now }
    }

    private func finish(_ stored: StoredExchange, _ start: StartMoment) {
        stored.start = nil
        var metrics = TransactionMetrics(
            method: step.request.method, address: step.address?.text ?? "", secrets: configuration.secrets,
            startDate: start.date)
        metrics.moments.ended = start.seconds(until: MonotonicClock.now)
        metrics.statusCode = stored.statusCode
        metrics.cacheUse = CacheUse(stored.response.use)
        metrics.countOfResponseBodyBytesAfterDecoding = step.decoder?.decodedByteCount ?? Int64(stored.position)
        delegate?.connection(self, didCollect: metrics, of: nil)
    }
}

/// The trace of a transfer, shared by all its requests.
extension RequestChain {
    /// Creates the recorder for the next request; nil without a trace.
    func makeTraceRecorder() -> TraceRecorder? {
        guard let trace = configuration.trace else { return nil }
        if traceNumber == 0 { traceNumber = trace.nextTransfer() }
        return TraceRecorder(trace, transfer: traceNumber, secrets: configuration.secrets)
    }

    func traceRedirect(_ event: RedirectEvent) { network?.handle.trace?.note("redirect: \(event)") }

    func traceFailure(_ error: URLError) { network?.handle.trace?.note("failed: \(error)") }
}
