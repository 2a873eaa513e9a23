import ConvoySecurity
import ConvoySupport
import Foundation

/// Notes when the phases of one request end, where somebody wants its metrics. Belongs to the network thread.
///
/// libcurl's own times count from when libcurl takes up the request, which may be later than its start, and again with each
/// time that libcurl sends it, of which they keep the sum. So the times are noted here where libcurl calls back, and taken
/// from libcurl, as distances from those, for what happens between two calls.
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
        (self.start, self.method, self.address, self.hasBody) = (start, method, address, hasBody)
        (self.usesTLS, self.usesTunnel, self.isProxied) = (usesTLS, usesTunnel, isProxied)
    }

    // Nil for what has not happened.

    /// The look-up of a name that is not known began.
    @exclusivity(unchecked) var lookUpBegan: MonotonicTime?
    /// The first socket for a connection was opened: the address is known.
    @exclusivity(unchecked) var socketOpened: MonotonicTime?
    /// libcurl began to wait for bytes from the other side of that socket, and so was connected. It counts that itself only
    /// when the whole way to the server is ready.
    @exclusivity(unchecked) var readingBegan: MonotonicTime?
    /// The handshake with the server began: there is a connection, through all proxies.
    @exclusivity(unchecked) var handshakeBegan: MonotonicTime?
    /// A connection was ready, and libcurl was about to send.
    @exclusivity(unchecked) var ready: MonotonicTime?
    /// The end of the request's body was handed to libcurl.
    @exclusivity(unchecked) var bodySent: MonotonicTime?
    /// The first line of a response was complete.
    @exclusivity(unchecked) var firstLine: MonotonicTime?
    /// libcurl was done with the request.
    @exclusivity(unchecked) var ended: MonotonicTime?

    /// How the connection over which the request was sent came to be.
    @exclusivity(unchecked) var connection: ConnectionMoments?
    @exclusivity(unchecked) var isReused = false
    @exclusivity(unchecked) var tls: NegotiatedTLS?
    /// How often libcurl was about to send.
    @exclusivity(unchecked) var sendCount = 0
    /// libcurl's counters when it was about to send the last time.
    @exclusivity(unchecked) var counters = CurlCounters()
    /// How many bytes of heads had gone to and fro before the request was sent: those of proxies.
    @exclusivity(unchecked) var proxyHeadBytes: (sent: Int64, received: Int64) = (0, 0)

    /// What was known of the request when the head of its response had come, and how often it had been sent by then.
    @exclusivity(unchecked) var atHead: (moments: TransactionMoments, sendCount: Int)?

    /// All moments of the request, which has ended, if they were known but for the end when the head of its response came.
    var momentsSinceHead: TransactionMoments? {
        guard let atHead, atHead.sendCount == sendCount, !hasBody, !isConnecting else { return nil }
        var moments = atHead.moments
        moments.ended = start.seconds(until: ended ?? MonotonicClock.now)
        return moments
    }

    /// Whether there was no connection yet, or libcurl had begun to make another one.
    var isConnecting: Bool { ready == nil || lookUpBegan != nil || socketOpened != nil }

    func noteSocket() {
        if socketOpened == nil { socketOpened = MonotonicClock.now }
    }

    func noteReading() {
        if socketOpened != nil, readingBegan == nil { readingBegan = MonotonicClock.now }
    }

    /// Begins anew with a connection, when this one is ready.
    func forgetConnecting() {
        (lookUpBegan, socketOpened, readingBegan, handshakeBegan) = (nil, nil, nil, nil)
    }

    func noteFirstLine() {
        if firstLine == nil { firstLine = MonotonicClock.now }
    }

    func noteEnd() { ended = MonotonicClock.now }
}

/// libcurl's counters of how the connection is made, in microseconds.
struct CurlCounters {
    var nameLookup: Int64 = 0
    var connect: Int64 = 0
    var handshake: Int64 = 0

    /// What was added since.
    func since(_ earlier: CurlCounters) -> CurlCounters {
        CurlCounters(
            nameLookup: nameLookup - earlier.nameLookup, connect: connect - earlier.connect,
            handshake: handshake - earlier.handshake)
    }
}

/// How a connection came to be.
struct ConnectionMoments {
    var began: MonotonicTime
    var nameFound: MonotonicTime?
    var connected: MonotonicTime?
    var tunnelEstablished: MonotonicTime?
    var secured: MonotonicTime?
}

extension RequestClock {
    /// How far the connection is that libcurl makes for the request; nil if it has not begun to make one.
    ///
    /// - Parameters:
    ///   - counted: libcurl's counters.
    ///   - ready: when the connection was ready; nil if it is not.
    func connectionMoments(_ counted: CurlCounters, ready: MonotonicTime?) -> ConnectionMoments? {
        let counted = counted.since(counters)
        guard let opened = socketOpened else { return lookUpBegan.map { ConnectionMoments(began: $0) } }
        /// The time of one of libcurl's counters, but not after what is known to be later.
        func time(of counter: Int64, notAfter limit: MonotonicTime?) -> MonotonicTime? {
            guard counter > 0 else { return limit }
            return min(origin + UInt64(counter) * 1000, limit ?? .max)
        }
        // The name is found just before the socket is opened.
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

    /// All moments of the request, which has ended.
    ///
    /// - Parameters:
    ///   - counted: libcurl's counters at the end.
    ///   - firstByteAfterSending: how long the first byte of the response took, in microseconds, as libcurl has counted it;
    ///     nil if it has not.
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
        // The first line may come long after its first byte.
        if let wait = firstByteAfterSending, sendCount == 1, !hasBody {
            first = min(first ?? .max, ready + UInt64(max(0, wait)) * 1000)
        }
        moments.firstByte = seconds(first)
        return moments
    }
}
