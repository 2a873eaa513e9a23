import ConvoySecurity
import ConvoySupport
import Foundation

/// A clock that measures the end of each phase of a request whose metrics are collected. Used on the network thread
/// only.
///
/// libcurl's own times count from when it begins the request, which may be later than the request's start, and
/// accumulate each time it sends the request again. Times are therefore recorded here when libcurl calls back.
/// libcurl's times are used only relative to the recorded times, for moments between two callbacks.
final class RequestClock {
    let start: StartMoment
    let method: String
    let address: String
    /// Whether the request has a body, which is sent in pieces.
    let hasBody: Bool
    let usesTLS: Bool
    let usesTunnel: Bool
    let isProxied: Bool

    init(
        start: StartMoment, method: String, address: String, hasBody: Bool, usesTLS: Bool, usesTunnel: Bool,
        isProxied: Bool
    ) {
        self.start = start
        self.method = method
        self.address = address
        self.hasBody = hasBody
        self.usesTLS = usesTLS
        self.usesTunnel = usesTunnel
        self.isProxied = isProxied
    }

    // The following times are nil if their event has not happened.

    /// The time when the DNS lookup of a name that is not cached began.
    @exclusivity(unchecked) var lookUpBegan: MonotonicTime?
    /// The time when the first socket of a connection was opened. The address is known from then on.
    @exclusivity(unchecked) var socketOpened: MonotonicTime?
    /// The time when libcurl began to wait for bytes on the first socket, which means that the socket was connected.
    /// libcurl itself reports this only when the entire route is ready.
    @exclusivity(unchecked) var readingBegan: MonotonicTime?
    /// The time when the handshake with the server began, over a connection through all proxies.
    @exclusivity(unchecked) var handshakeBegan: MonotonicTime?
    /// The time when a connection was ready and libcurl was about to send.
    @exclusivity(unchecked) var ready: MonotonicTime?
    /// The time when the end of the request's body was handed to libcurl.
    @exclusivity(unchecked) var bodySent: MonotonicTime?
    /// The time when the first line of a response was complete.
    @exclusivity(unchecked) var firstLine: MonotonicTime?
    /// The time when the request ended in libcurl.
    @exclusivity(unchecked) var ended: MonotonicTime?

    /// The times at which the steps of establishing the request's connection were completed.
    @exclusivity(unchecked) var connection: ConnectionMoments?
    @exclusivity(unchecked) var isReused = false
    @exclusivity(unchecked) var tls: NegotiatedTLS?
    /// The number of times that libcurl was about to send.
    @exclusivity(unchecked) var sendCount = 0
    /// libcurl's counters when it was last about to send.
    @exclusivity(unchecked) var counters = CurlCounters()
    /// The number of bytes of proxy heads exchanged before the request was sent.
    @exclusivity(unchecked) var proxyHeadBytes: (sent: Int64, received: Int64) = (0, 0)

    /// The moments known when the response head had arrived, and the send count at that time.
    @exclusivity(unchecked) var atHead: (moments: TransactionMoments, sendCount: Int)?

    /// All moments of an ended request, if only its end was unknown when its response head arrived.
    var momentsSinceHead: TransactionMoments? {
        guard let atHead, atHead.sendCount == sendCount, !hasBody, !isConnecting else { return nil }
        var moments = atHead.moments
        moments.ended = start.seconds(until: ended ?? MonotonicClock.now)
        return moments
    }

    /// Whether the connection is not ready yet, or libcurl has begun to open another one.
    var isConnecting: Bool { ready == nil || lookUpBegan != nil || socketOpened != nil }

    func noteSocket() {
        if socketOpened == nil { socketOpened = MonotonicClock.now }
    }

    func noteReading() {
        if socketOpened != nil, readingBegan == nil { readingBegan = MonotonicClock.now }
    }

    /// Restarts the measurement for another connection, if the previous one was ready.
    func forgetConnecting() {
        lookUpBegan = nil
        socketOpened = nil
        readingBegan = nil
        handshakeBegan = nil
    }

    func noteFirstLine() {
        if firstLine == nil { firstLine = MonotonicClock.now }
    }

    func noteEnd() { ended = MonotonicClock.now }
}

/// libcurl's counters for establishing the connection, in microseconds.
struct CurlCounters {
    var nameLookup: Int64 = 0
    var connect: Int64 = 0
    var handshake: Int64 = 0

    /// Returns the increase since an earlier time.
    func since(_ earlier: CurlCounters) -> CurlCounters {
        CurlCounters(
            nameLookup: nameLookup - earlier.nameLookup, connect: connect - earlier.connect,
            handshake: handshake - earlier.handshake)
    }
}

/// The times at which the steps of connecting were completed.
struct ConnectionMoments {
    var began: MonotonicTime
    var nameFound: MonotonicTime?
    var connected: MonotonicTime?
    var tunnelEstablished: MonotonicTime?
    var secured: MonotonicTime?
}

extension RequestClock {
    /// Returns the state of the connection that libcurl opens for the request; nil if libcurl has not begun to open
    /// one.
    ///
    /// - Parameters:
    ///   - counted: libcurl's counters.
    ///   - ready: The time at which the connection was ready; nil if it is not.
    func connectionMoments(_ counted: CurlCounters, ready: MonotonicTime?) -> ConnectionMoments? {
        let counted = counted.since(counters)
        guard let opened = socketOpened else { return lookUpBegan.map { ConnectionMoments(began: $0) } }
        /// Returns the time of a libcurl counter, limited by a known later time.
        func time(of counter: Int64, notAfter limit: MonotonicTime?) -> MonotonicTime? {
            guard counter > 0 else { return limit }
            return min(origin + UInt64(counter) * 1000, limit ?? .max)
        }
        // The name is resolved just before the socket is opened.
        let origin = opened - min(opened, UInt64(max(0, counted.nameLookup)) * 1000)
        var moments = ConnectionMoments(began: max(start.time, min(lookUpBegan ?? origin, opened)), nameFound: opened)
        let afterTunnel = usesTLS ? handshakeBegan : ready
        let known = [readingBegan, afterTunnel].compactMap(\.self).min()
        moments.connected = time(of: counted.connect, notAfter: known).map { max(opened, $0) }
        guard let connected = moments.connected else { return moments }
        if usesTunnel { moments.tunnelEstablished = afterTunnel.map { max(connected, $0) } }
        if usesTLS, handshakeBegan != nil {
            moments.secured = time(of: counted.handshake, notAfter: ready).map {
                max(moments.tunnelEstablished ?? connected, $0)
            }
        }
        return moments
    }

    /// Returns all moments of an ended request.
    ///
    /// - Parameters:
    ///   - counted: libcurl's counters at the end.
    ///   - firstByteAfterSending: The time until the first byte of the response, in microseconds, as counted by
    ///     libcurl; nil if it was not counted.
    func moments(_ counted: CurlCounters, firstByteAfterSending: Int64?) -> TransactionMoments {
        let end = ended ?? MonotonicClock.now
        var moments = TransactionMoments()
        moments.usesTLS = usesTLS
        moments.usesTunnel = usesTunnel
        func seconds(_ time: MonotonicTime?) -> TimeInterval? {
            time.map { start.seconds(until: min($0, end)) }
        }
        let way = isConnecting ? connectionMoments(counted, ready: nil) : connection
        moments.connectionBegan = seconds(way?.began)
        moments.nameFound = seconds(way?.nameFound)
        moments.connected = seconds(way?.connected)
        moments.tunnelEstablished = seconds(way?.tunnelEstablished)
        moments.secured = seconds(way?.secured)
        moments.ended = start.seconds(until: end)
        guard !isConnecting, let ready else { return moments }
        moments.requestSent = seconds(hasBody ? bodySent : ready)
        var first = firstLine
        // The first line may be complete long after its first byte.
        if let wait = firstByteAfterSending, sendCount == 1, !hasBody {
            first = min(first ?? .max, ready + UInt64(max(0, wait)) * 1000)
        }
        moments.firstByte = seconds(first)
        return moments
    }
}
