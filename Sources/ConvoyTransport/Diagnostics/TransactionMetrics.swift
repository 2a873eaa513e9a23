import ConvoySupport
import Foundation

/// The measurements of one request: the duration of each phase, the connection, and the number of bytes. The
/// counterpart of Foundation's `URLSessionTaskTransactionMetrics`, which Foundation on Linux does not have.
///
/// Each redirect, each retry and each part of a download has its own, and so has a response out of a cache
/// (``cacheUse``), for which nothing was sent.
///
/// The times of the phases are seconds since the start, by a clock that never goes back, and are nil for what was not
/// reached. They are multiples of 2⁻²⁰ s, about a microsecond, so that the durations of all phases add up to
/// ``duration`` exactly. An existing connection (``isReusedConnection``) has these phases behind it at once.
public struct TransactionMetrics: Sendable, Hashable {
    /// The method, such as `GET`.
    public let requestMethod: String
    /// The URL as text, without secrets: making a `URL` of it takes time, and few look at it.
    private let address: String
    /// The status of the response; nil if no whole head came.
    public internal(set) var statusCode: Int?
    /// Why there is no whole response, in a line without secrets; nil where there is one, or its rest was not needed.
    public internal(set) var failureReason: String?
    /// When the request began, by the date of the system.
    public let startDate: Date

    var moments = TransactionMoments()

    /// The version of HTTP in which the server has answered, by the name that ALPN has for it: `h2`, `http/1.1`,
    /// `http/1.0`. nil without one.
    public internal(set) var networkProtocolName: String?
    /// The version of TLS, such as `TLSv1.3`; nil for plain text, and where TLS was not agreed on.
    public internal(set) var negotiatedTLSProtocolVersion: String?
    /// The registered name of the cipher suite, such as `TLS_AES_256_GCM_SHA384`; nil like the version.
    public internal(set) var negotiatedTLSCipherSuite: String?
    /// The address that was connected to, of the server or of its proxy; nil without a connection, and for a Unix socket.
    public internal(set) var remoteAddress: String?
    /// The port that was connected to.
    public internal(set) var remotePort: Int?
    /// The address of this side of the connection.
    public internal(set) var localAddress: String?
    /// The port of this side of the connection.
    public internal(set) var localPort: Int?
    /// Whether the request was sent over a connection that another one had opened.
    public internal(set) var isReusedConnection = false
    /// Whether the request went to a proxy, or through one.
    public internal(set) var isProxyConnection = false
    /// How the response came out of a cache; nil for one from the network.
    public internal(set) var cacheUse: CacheUse?

    /// Whether the request was made by another operation, whose response this one shares. It is in the metrics of both,
    /// and true for all but one. It may have begun before this operation did.
    public package(set) var isShared = false

    /// The bytes of the request's head that were sent. HTTP/2 sends it in a shorter form that libcurl does not count;
    /// this is its length for HTTP/1.1. Requests for a proxy tunnel are not counted.
    public internal(set) var countOfRequestHeaderBytesSent: Int64 = 0
    /// The bytes of the request's body that were sent, without the framing of chunks.
    public internal(set) var countOfRequestBodyBytesSent: Int64 = 0
    /// The bytes of the response's heads that were received, interim ones too; for HTTP/2 as for the request.
    public internal(set) var countOfResponseHeaderBytesReceived: Int64 = 0
    /// The bytes of the response's body that were received, in its content coding, without the framing of chunks.
    public internal(set) var countOfResponseBodyBytesReceived: Int64 = 0
    /// The bytes of the response's body without its content coding. The body of a redirect that was followed, or of a
    /// response that the cache has replaced, does not count.
    public internal(set) var countOfResponseBodyBytesAfterDecoding: Int64 = 0

    /// - Parameter address: the URL as it was sent.
    init(method: String, address: String, secrets: SecretClassifier, startDate: Date) {
        requestMethod = method
        self.address = Redaction.url(address, secrets)
        self.startDate = startDate
    }
}

// MARK: What is made of it

extension TransactionMetrics {
    /// The URL, with `***` for a user and a password and for the values of
    /// ``ConnectionConfiguration/sensitiveQueryItems``; nil if Foundation cannot read it.
    public var url: URL? { URL(string: address) }

    /// The name of the host was found; nil if it was not.
    public var nameFound: TimeInterval? { moments.nameFound }
    /// The connection to the server, or to its proxy, was made; nil if it was not.
    public var connected: TimeInterval? { moments.connected }
    /// The proxy had made a tunnel to the server; nil without one.
    public var tunnelEstablished: TimeInterval? { moments.tunnelEstablished }
    /// TLS with the server was agreed on; nil for plain text, and if it was not.
    public var secured: TimeInterval? { moments.secured }
    /// The last byte of the request was handed over to be sent; up to 128 KiB may still have been on their way to the
    /// socket. nil if that did not happen; later than ``firstByte`` if the server answered early.
    public var requestSent: TimeInterval? { moments.requestSent }
    /// The first byte of a response came, be it an interim one; nil if none did. Where the request has a body, and with
    /// libcurl 8, it is the first line that counts.
    public var firstByte: TimeInterval? { moments.firstByte }
    /// The request had ended, with a complete response, an error, or a cancellation: the duration of all phases.
    public var duration: TimeInterval { moments.ended }

    /// The duration of a phase: 0 for a phase that did not occur; for the phase in which the request ended, the time
    /// until then. A stored response has only the phase of receiving.
    public func duration(of phase: TransactionPhase) -> TimeInterval {
        if cacheUse != nil { return phase == .receive ? duration : 0 }
        return moments.durations.first { $0.phase == phase }?.duration ?? 0
    }

    /// The times to the millisecond: `name 0.004 s, connect 0.021 s, TLS 0.055 s, first byte 0.081 s, total 0.492 s`.
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
    /// A line without secrets: the method, the URL, the status, where the response came from, and the times.
    public var description: String {
        var parts = [requestMethod, address]
        parts.append(statusCode.map(String.init) ?? "no response")
        if let cacheUse {
            parts.append("from the cache (\(cacheUse.rawValue))")
        } else {
            if let networkProtocolName { parts.append(networkProtocolName) }
            if isReusedConnection { parts.append("over a connection that was there") }
        }
        return parts.joined(separator: " ") + ": " + timeline
    }
}

extension TransactionMetrics: CustomReflectable {
    /// Nothing, so that `dump` prints no secrets.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// When the phases of a request ended, in seconds from its start; nil for those not reached.
struct TransactionMoments: Sendable, Hashable {
    /// libcurl has taken up the request: the look-up of the name begins, or a connection that is there was chosen.
    var connectionBegan: TimeInterval?
    var nameFound: TimeInterval?
    var connected: TimeInterval?
    var tunnelEstablished: TimeInterval?
    var secured: TimeInterval?
    var requestSent: TimeInterval?
    var firstByte: TimeInterval?
    var ended: TimeInterval = 0

    /// Whether the way to the server has these phases.
    var usesTunnel = false
    var usesTLS = false

    /// The duration of each phase, in order. The time after the last moment belongs to the phase that was running.
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

/// A phase of a request, in the order in which they follow each other. Those of HAR, and the tunnel.
public enum TransactionPhase: String, Sendable, Hashable, CaseIterable {
    /// The request was waiting for the cache, for a file descriptor, or for a connection that others share and that was
    /// still being made.
    case blocked
    /// The name of the host, or of the proxy, was looked up.
    case nameLookup
    /// The connection to the server, or to the proxy, was made.
    case connect
    /// The proxy was asked for a tunnel, over TLS if it speaks that.
    case tunnel
    /// TLS was agreed on with the server.
    case tls
    /// The request was sent.
    case send
    /// The server had the request, and had not answered.
    case wait
    /// The response came.
    case receive
}

/// When the phases of a request ended, in seconds from its start, up to the first byte of the response; nil for phases
/// that did not occur.
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
    /// When the phases up to the first byte of the response ended.
    package var phases: TransactionPhases { TransactionPhases(moments, isReusedConnection: isReusedConnection) }
}

/// Why a stored response was served (RFC 9111, section 4).
public enum CacheUse: String, Sendable, Hashable, CaseIterable {
    /// The response was fresh.
    case fresh
    /// The server has validated it.
    case validated
    /// The response was stale, but within the request's `max-stale`.
    case maxStale
    /// The response was stale, and the server is being asked for a new one meanwhile (RFC 5861, section 3).
    case staleWhileRevalidate
    /// The response was stale, but the server could not be reached or had an error (RFC 5861, section 4).
    case staleIfError
    /// The request accepts stored responses of any age (`URLRequest.CachePolicy.returnCacheDataElseLoad`,
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
