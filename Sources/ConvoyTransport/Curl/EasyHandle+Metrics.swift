import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// Reads libcurl's counters, if the metrics of the request are collected.
extension EasyHandle {
    /// Makes libcurl report the start of DNS lookups.
    func setLookUpCallback() {
        convoy_easy_set_pointer(easy, CURLOPT_RESOLVER_START_DATA, Unmanaged.passUnretained(self).toOpaque())
        convoy_easy_set_resolver_callback(easy) { _, _, context in
            EasyHandle.from(context)?.clock?.lookUpBegan = MonotonicClock.now
            return 0
        }
    }

    private var counters: CurlCounters {
        CurlCounters(
            nameLookup: offset(CURLINFO_NAMELOOKUP_TIME_T), connect: offset(CURLINFO_CONNECT_TIME_T),
            handshake: offset(CURLINFO_APPCONNECT_TIME_T))
    }

    /// Records that libcurl has a connection and is about to send the request, possibly not for the first time.
    func noteReady(_ clock: RequestClock) {
        let now = MonotonicClock.now
        let counted = counters
        if clock.socketOpened != nil {
            clock.connection = clock.connectionMoments(counted, ready: now)
            clock.isReused = false
        } else if clock.connection == nil {
            clock.isReused = true
            clock.connection = ConnectionMoments(
                began: now, nameFound: now, connected: now, tunnelEstablished: clock.usesTunnel ? now : nil,
                secured: clock.usesTLS ? now : nil)
        }
        if clock.sendCount == 0 {
            clock.proxyHeadBytes = (Int64(long(CURLINFO_REQUEST_SIZE)), Int64(long(CURLINFO_HEADER_SIZE)))
        }
        // Read the TLS values now, because libcurl does not provide the connection later.
        if clock.usesTLS { clock.tls = convoy_easy_tls(easy).flatMap { NegotiatedTLS(OpaquePointer($0)) } }
        clock.sendCount += 1
        clock.counters = counted
        clock.forgetConnecting()
        clock.bodySent = nil
        clock.firstLine = nil
        clock.ready = now
    }

    private func moments(_ clock: RequestClock) -> TransactionMoments {
        let sending = offset(CURLINFO_PRETRANSFER_TIME_T)
        let firstByte = offset(CURLINFO_STARTTRANSFER_TIME_T)
        return clock.moments(
            counters, firstByteAfterSending: firstByte > 0 && sending > 0 ? firstByte - sending : nil)
    }

    /// Returns the end times of a request's phases. Called when its response head has arrived.
    func phases(_ clock: RequestClock) -> TransactionPhases {
        let moments = moments(clock)
        clock.atHead = (moments, clock.sendCount)
        return TransactionPhases(moments, isReusedConnection: !clock.isConnecting && clock.isReused)
    }

    /// Returns the metrics of a finished request, without those that come from the response.
    func metrics(_ clock: RequestClock, secrets: SecretClassifier) -> TransactionMetrics {
        var metrics = TransactionMetrics(
            method: clock.method, address: clock.address, secrets: secrets, startDate: clock.start.date)
        metrics.moments = clock.momentsSinceHead ?? moments(clock)
        metrics.isProxyConnection = clock.isProxied
        if !clock.isConnecting {
            metrics.isReusedConnection = clock.isReused
            metrics.negotiatedTLSProtocolVersion = clock.tls?.version
            metrics.negotiatedTLSCipherSuite = clock.tls?.cipherSuite
        }
        if metrics.connected != nil {
            metrics.remoteAddress = text(CURLINFO_PRIMARY_IP)
            metrics.localAddress = text(CURLINFO_LOCAL_IP)
            metrics.remotePort = metrics.remoteAddress.map { _ in long(CURLINFO_PRIMARY_PORT) }
            metrics.localPort = metrics.localAddress.map { _ in long(CURLINFO_LOCAL_PORT) }
        }
        guard clock.sendCount > 0 else { return metrics }
        if metrics.firstByte != nil { metrics.networkProtocolName = networkProtocolName }
        let heads = clock.proxyHeadBytes
        let body = offset(CURLINFO_SIZE_UPLOAD_T)
        let head = Int64(long(CURLINFO_REQUEST_SIZE)) - heads.sent - (CurlQuirks.countsBodyAsRequest ? body : 0)
        metrics.countOfRequestHeaderBytesSent = max(0, head)
        metrics.countOfRequestBodyBytesSent = body
        metrics.countOfResponseHeaderBytesReceived = max(0, Int64(long(CURLINFO_HEADER_SIZE)) - heads.received)
        metrics.countOfResponseBodyBytesReceived = offset(CURLINFO_SIZE_DOWNLOAD_T)
        return metrics
    }

    private var networkProtocolName: String? {
        switch long(CURLINFO_HTTP_VERSION) {
        case Int(CURL_HTTP_VERSION_1_0): "http/1.0"
        case Int(CURL_HTTP_VERSION_1_1): "http/1.1"
        case Int(CURL_HTTP_VERSION_2_0): "h2"
        case Int(CURL_HTTP_VERSION_3): "h3"
        default: nil
        }
    }

    /// Returns a string from libcurl; nil if it is empty.
    private func text(_ info: CURLINFO) -> String? {
        var text: UnsafePointer<CChar>?
        guard convoy_easy_get_pointer(easy, info, &text) == CURLE_OK, let text, text.pointee != 0 else { return nil }
        return String(cString: text)
    }
}
