import ConvoySupport
import Foundation

/// The metrics of each request, for the delegate and for the trace.
extension URLConnection {
    private var isMeasured: Bool { configuration.collectsMetrics || configuration.trace != nil }

    /// What notes the times of the next request; nil if nobody wants them.
    func makeClock(for departure: Departure, _ options: EasyHandle.Options) -> RequestClock? {
        guard isMeasured else { return nil }
        let proxy = departure.route?.proxy
        defer { earlierStart = nil }
        return RequestClock(
            start: earlierStart ?? .now, method: departure.request.method, address: departure.address,
            hasBody: body.map { $0.length != 0 } ?? false, usesTLS: departure.isSecure,
            usesTunnel: options.mayTunnel || proxy?.kind == .https || proxy?.kind.isHTTP == false, isProxied: proxy != nil)
    }

    /// Tells the delegate of a request; not again when one had to wait for a descriptor.
    func tellOfRequest(_ departure: Departure) {
        guard !isRequestTold else { return }
        isRequestTold = true
        delegate?.connection(
            self,
            willSend: RequestHead(
                method: departure.request.method, address: departure.address, header: departure.header,
                bodyLength: body.map { $0.length } ?? 0, secrets: configuration.secrets))
    }

    /// When the phases of the current request ended that have ended; nil where that is not noted, and for a response out of
    /// a cache. To be called only from the delegate's methods.
    package var phasesSoFar: TransactionPhases? {
        guard replay == nil, let handle, let clock = handle.clock else { return nil }
        return handle.phases(clock)
    }

    /// The head of the response to the current request, be it delivered or not; nil without one, and for one out of a
    /// cache. To be called only from the delegate's methods.
    package var latestHead: ResponseHead? {
        guard head.isWhole, replay == nil else { return nil }
        return ResponseHead(
            place: ResponseHead.Place(currentRequest), statusCode: head.statusCode, contentLength: head.contentLength,
            isEncoded: !ContentCoding.codings(in: head.contentEncodings).isEmpty, bytes: head.bytes)
    }

    /// Notes when the request began that is ready to be sent, and may have to wait.
    func noteStart() {
        if isMeasured, earlierStart == nil { earlierStart = .now }
    }

    /// The request cannot be sent now. Its time goes on.
    func forgetTransaction() {
        earlierStart = handle?.clock?.start
        handle?.clock = nil
    }

    /// Tells the metrics of the current request, which has ended, if they are wanted and were not told yet.
    func finishTransaction() {
        if let replay, let start = replay.start { return finish(replay, start) }
        guard let handle, let clock = handle.clock else { return }
        handle.clock = nil
        var metrics = handle.metrics(clock, secrets: configuration.secrets)
        if head.isWhole { metrics.statusCode = head.statusCode }
        // libcurl counts the framing of chunks.
        metrics.countOfRequestBodyBytesSent = min(metrics.countOfRequestBodyBytesSent, sentBytes)
        metrics.countOfResponseBodyBytesAfterDecoding =
            decoder?.decodedByteCount ?? max(0, metrics.countOfResponseBodyBytesReceived - Int64(discarded))
        handle.trace?.end(metrics)
        isRequestTold = false
        if configuration.collectsMetrics { delegate?.connection(self, didCollect: metrics) }
    }

    /// Notes when a stored response began to be delivered: with the question to the cache.
    func noteStart(of replay: Replay) {
        defer { earlierStart = nil }
        if configuration.collectsMetrics { replay.start = earlierStart ?? .now }
    }

    private func finish(_ replay: Replay, _ start: StartMoment) {
        replay.start = nil
        var metrics = TransactionMetrics(
            method: currentRequest.method, address: currentAddress?.text ?? "", secrets: configuration.secrets,
            startDate: start.date)
        metrics.moments.ended = start.seconds(until: MonotonicClock.now)
        metrics.statusCode = replay.statusCode
        metrics.cacheUse = CacheUse(replay.stored.use)
        metrics.countOfResponseBodyBytesAfterDecoding = decoder?.decodedByteCount ?? Int64(replay.position)
        delegate?.connection(self, didCollect: metrics)
    }
}
