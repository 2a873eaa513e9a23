import ConvoySupport
import Foundation

/// The metrics of one request: the duration of each phase, the connection, and the byte counts. The counterpart of
/// Foundation's `URLSessionTaskTransactionMetrics`, which is missing in Foundation on Linux.
///
/// Each redirect, each retry and each part of a download has its own metrics, as does a cached response (``cacheUse``),
/// for which nothing was sent.
///
/// The times of the phases are in seconds since the start, measured with a monotonic clock, and nil for phases that
/// were not reached. They are multiples of 2⁻²⁰ s, about a microsecond, so that the durations of all phases add up to
/// exactly ``duration``. If the request reuses a connection (``isReusedConnection``), the phases of connecting take no
/// time.
public struct TransactionMetrics: Sendable, Hashable {
    /// The method, such as `GET`.
    public let requestMethod: String
    /// The URL as a string, without secrets. It is converted to a `URL` on demand, because the conversion takes time
    /// and few callers need it.
    private let address: String
    /// The status of the response; nil if no complete head was received.
    public internal(set) var statusCode: Int?
    /// The reason why the response is incomplete, in one line without secrets; nil if it is complete, or if its rest
    /// was not needed.
    public internal(set) var failureReason: String?
    /// The time at which the request began, by the system clock.
    public let startDate: Date

    var moments = TransactionMoments()

    /// The HTTP version of the response, by its ALPN name: `h2`, `http/1.1`, `http/1.0`; nil if no response arrived.
    public internal(set) var networkProtocolName: String?
    /// The TLS version, such as `TLSv1.3`; nil for plain text, and if the handshake was not completed.
    public internal(set) var negotiatedTLSProtocolVersion: String?
    /// The registered name of the cipher suite, such as `TLS_AES_256_GCM_SHA384`; nil in the same cases as the version.
    public internal(set) var negotiatedTLSCipherSuite: String?
    /// The remote address of the connection, which belongs to the server or its proxy; nil if there was no connection,
    /// and for a Unix socket.
    public internal(set) var remoteAddress: String?
    /// The remote port of the connection.
    public internal(set) var remotePort: Int?
    /// The local address of the connection.
    public internal(set) var localAddress: String?
    /// The local port of the connection.
    public internal(set) var localPort: Int?
    /// Whether the request was sent over a connection that an earlier request had opened.
    public internal(set) var isReusedConnection = false
    /// Whether the request was sent to a proxy, or through one.
    public internal(set) var isProxyConnection = false
    /// The reason why the cache served the response; nil for a response from the network.
    public internal(set) var cacheUse: CacheUse?

    /// Whether the request was sent by another operation whose response this one shares. Such a request is in the
    /// metrics of all operations that share the response, and `isShared` is false for only one of them. The request may
    /// have begun before this operation did.
    public package(set) var isShared = false

    /// The number of bytes of the request's head that were sent. For HTTP/2, which compresses heads, this is the size
    /// of the equivalent HTTP/1.1 head, because libcurl does not count the actual bytes. Requests for a proxy tunnel
    /// are not counted.
    public internal(set) var countOfRequestHeaderBytesSent: Int64 = 0
    /// The number of bytes of the request's body that were sent, excluding the chunked framing.
    public internal(set) var countOfRequestBodyBytesSent: Int64 = 0
    /// The number of bytes of response heads that were received, including interim responses. For HTTP/2, they are
    /// counted as for the request.
    public internal(set) var countOfResponseHeaderBytesReceived: Int64 = 0
    /// The number of bytes of the response's body that were received, before decoding, excluding the chunked framing.
    public internal(set) var countOfResponseBodyBytesReceived: Int64 = 0
    /// The number of bytes of the response's body after decoding. The body of a redirect that was followed, or of a
    /// response that a cached one replaced, is not counted.
    public internal(set) var countOfResponseBodyBytesAfterDecoding: Int64 = 0

    /// - Parameter address: The URL as it was sent.
    init(method: String, address: String, secrets: SecretClassifier, startDate: Date) {
        requestMethod = method
        self.address = Redaction.url(address, secrets)
        self.startDate = startDate
    }
}

// MARK: Derived values

extension TransactionMetrics {
    /// The URL, with `***` in place of the user name, the password and the values of
    /// ``ConnectionConfiguration/sensitiveQueryItems``; nil if Foundation cannot parse it.
    public var url: URL? { URL(string: address) }

    /// The time at which the host name was resolved; nil if it was not.
    public var nameFound: TimeInterval? { moments.nameFound }
    /// The time at which the connection to the server, or to its proxy, was established; nil if it was not.
    public var connected: TimeInterval? { moments.connected }
    /// The time at which the tunnel through the proxy was established; nil if none was.
    public var tunnelEstablished: TimeInterval? { moments.tunnelEstablished }
    /// The time at which the TLS handshake with the server was complete; nil for plain text, and if it was not
    /// completed.
    public var secured: TimeInterval? { moments.secured }
    /// The time at which the last byte of the request was passed on for sending, although up to 128 KiB may not have
    /// reached the socket yet; nil if it was not passed on. The time is later than ``firstByte`` if the server
    /// responded early.
    public var requestSent: TimeInterval? { moments.requestSent }
    /// The time at which the first byte of a response arrived, including interim responses; nil if none did. With
    /// libcurl 8, or if the request has a body, this is the time of the first complete line.
    public var firstByte: TimeInterval? { moments.firstByte }
    /// The time at which the request ended, with a complete response, an error or a cancellation. This is the duration
    /// of all phases.
    public var duration: TimeInterval { moments.ended }

    /// Returns the duration of a phase, or 0 if it did not occur. For the phase in which the request ended, this is the
    /// time until the end. A cached response has only the receive phase.
    public func duration(of phase: TransactionPhase) -> TimeInterval {
        if cacheUse != nil { return phase == .receive ? duration : 0 }
        return moments.durations.first { $0.phase == phase }?.duration ?? 0
    }

    /// The times in seconds, rounded to milliseconds: `name 0.004 s, connect 0.021 s, TLS 0.055 s, first byte 0.081 s,
    /// total 0.492 s`.
    public var timeline: String {
        let times: [(String, TimeInterval?)] = [
            ("name", nameFound), ("connect", connected), ("tunnel", tunnelEstablished), ("TLS", secured),
            ("first byte", firstByte), ("total", duration),
        ]
        return times.compactMap { name, time in time.map { String(format: "%@ %.3f s", name, $0) } }
            .joined(separator: ", ")
    }
}

extension TransactionMetrics {
    /// The method and the URL, without secrets.
    package var requestLine: String { "\(requestMethod) \(address)" }
}

extension TransactionMetrics: CustomStringConvertible {
    /// A description in one line, without secrets: the method, the URL, the status, the source of the response, and the
    /// times.
    public var description: String {
        var parts = [requestMethod, address]
        parts.append(statusCode.map(String.init) ?? "no response")
        if let cacheUse {
            parts.append("from the cache (\(cacheUse.rawValue))")
        } else {
            if let networkProtocolName { parts.append(networkProtocolName) }
            if isReusedConnection { parts.append("over a reused connection") }
        }
        return parts.joined(separator: " ") + ": " + timeline
    }
}

extension TransactionMetrics: OpaqueReflectable {}

/// The times at which the phases of a request ended, in seconds from its start; nil for phases that were not reached.
struct TransactionMoments: Sendable, Hashable {
    /// The time at which libcurl began to process the request: the DNS lookup began, or an existing connection was
    /// chosen.
    var connectionBegan: TimeInterval?
    var nameFound: TimeInterval?
    var connected: TimeInterval?
    var tunnelEstablished: TimeInterval?
    var secured: TimeInterval?
    var requestSent: TimeInterval?
    var firstByte: TimeInterval?
    var ended: TimeInterval = 0

    /// Whether the request passes through a tunnel and therefore has a tunnel phase.
    var usesTunnel = false
    /// Whether the connection uses TLS, so that the request has a TLS phase.
    var usesTLS = false

    /// The duration of each phase, in order. The time after the last moment belongs to the phase that was in progress.
    var durations: [(phase: TransactionPhase, duration: TimeInterval)] {
        let sent = firstByte.map { min(requestSent ?? $0, $0) } ?? requestSent
        let ends: [(TransactionPhase, TimeInterval?, isPossible: Bool)] = [
            (.blocked, connectionBegan, true), (.nameLookup, nameFound, true), (.connect, connected, true),
            (.tunnel, tunnelEstablished, usesTunnel), (.tls, secured, usesTLS), (.send, sent, true),
            (.wait, firstByte, true), (.receive, firstByte == nil ? nil : ended, true),
        ]
        let last = ends.lastIndex { $0.1 != nil } ?? -1
        let current = ends.indices.first { $0 > last && ends[$0].isPossible }
        var before: TimeInterval = 0
        return ends.indices.map { index in
            let end = index == current ? ended : ends[index].1 ?? before
            defer { before = max(before, end) }
            return (ends[index].0, max(0, end - before))
        }
    }
}

/// The phases of a request, in order: those of HAR, and the tunnel.
public enum TransactionPhase: String, Sendable, Hashable, CaseIterable {
    /// Waiting for the cache, for a file descriptor, or for a shared connection that was still being established.
    case blocked
    /// Resolving the name of the host or the proxy.
    case nameLookup
    /// Connecting to the server or to the proxy.
    case connect
    /// Requesting a tunnel from the proxy, including TLS with the proxy itself.
    case tunnel
    /// The TLS handshake with the server.
    case tls
    /// Sending the request.
    case send
    /// Waiting for the server's response after sending the request.
    case wait
    /// Receiving the response.
    case receive
}

/// The times at which the phases of a request ended, in seconds from its start, up to the first byte of the response;
/// nil for phases that did not occur.
package struct TransactionPhases: Sendable {
    package let nameLookup, connect, tunnel, tls, send, wait: TimeInterval?

    init(_ moments: TransactionMoments, isReusedConnection: Bool) {
        (nameLookup, connect) = isReusedConnection ? (nil, nil) : (moments.nameFound, moments.connected)
        (tunnel, tls) = isReusedConnection ? (nil, nil) : (moments.tunnelEstablished, moments.secured)
        send = moments.requestSent.flatMap { sent in sent <= moments.firstByte ?? sent ? sent : nil }
        wait = moments.firstByte
    }
}

extension TransactionMetrics {
    /// The times at which the phases up to the first byte of the response ended.
    package var phases: TransactionPhases { TransactionPhases(moments, isReusedConnection: isReusedConnection) }
}

/// The reason why a cached response was served (RFC 9111, section 4).
public enum CacheUse: String, Sendable, Hashable, CaseIterable {
    /// The response was fresh.
    case fresh
    /// The server validated the response.
    case validated
    /// The response was stale, but within the request's `max-stale`.
    case maxStale
    /// The response was stale, and is being revalidated in the background (RFC 5861, section 3).
    case staleWhileRevalidate
    /// The response was stale, but the server was unreachable or returned an error (RFC 5861, section 4).
    case staleIfError
    /// The request accepts cached responses of any age (`URLRequest.CachePolicy.returnCacheDataElseLoad`,
    /// `.returnCacheDataDontLoad`).
    case ignoringAge

    init(_ use: StoredUse) {
        self =
            switch use {
            case .fresh: .fresh
            case .validated: .validated
            case .maxStale: .maxStale
            case .staleWhileRevalidate: .staleWhileRevalidate
            case .staleIfError: .staleIfError
            case .ignoringAge: .ignoringAge
            }
    }
}
