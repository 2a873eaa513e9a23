import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// The state of a connection for one request and its response.
///
/// It is replaced as a whole when another exchange begins: with each redirect, when the same request begins anew, and
/// when a stored response replaces the network's. Nothing of the earlier one remains, except for what an initializer
/// takes over.
@dynamicMemberLookup
struct Exchange: ~Copyable {
    /// The request as it is sent.
    var request: TransferRequest
    /// Where it goes; nil until its URL has been read.
    var address: HTTPAddress?
    /// The header of the request, against which the response is checked; nil until it is made.
    var header: RequestHeader?
    /// The TLS context, if TLS is used.
    var tls: TLSContext?
    /// Whether TLS is used with the server or with a proxy.
    var speaksTLS = false
    var body: (any BodySource)?
    var sentBytes: Int64 = 0
    /// Whether the request's body is sent in part.
    var isSendingBody = false

    var response = Response()
    /// The holds of the response, and what waits behind them.
    var flow: TransferState
    /// libcurl's result for the transfer, while it waits behind a hold.
    var heldResult: CURLcode?
    var times = TransferTimes()
    /// How often a stored body could not be read, so that the request began anew.
    var lostReplays = 0
    /// Whether the request needs a connection of its own.
    var isAlone = false
    /// Whether the server requires HTTP/1.1 for the request.
    var needsHTTP1 = false

    /// The thread's count of descriptor shortages when the request was passed to libcurl.
    var earlierShortages = 0
    /// Since when the request lacks a descriptor for its connection; 0 if it did not.
    var waitsSince: MonotonicTime = 0
    /// When the request began; nil if it is not measured.
    var start: StartMoment?
    /// Whether the request was reported to the delegate, which expects its metrics.
    var isReported = false

    /// What few exchanges have. The network thread's.
    final class Rare {
        /// The way to the server; nil for the direct one.
        @exclusivity(unchecked) var route: Route?
        /// The credentials with which libcurl authenticates the connection itself, in several messages; nil if it does not.
        @exclusivity(unchecked) var negotiation: Negotiation?
        /// nil without a stall limit.
        @exclusivity(unchecked) var stallMeter: URLConnection.Reference<StallMeter>?
        /// The exchange with the cache; nil if the cache is not used.
        @exclusivity(unchecked) var cache: (any ResponseCacheExchange)?
        /// The stored response that is being delivered.
        @exclusivity(unchecked) var replay: Replay?
    }

    /// Made when its first member is set.
    private var rare: Rare?

    subscript<Value>(dynamicMember member: ReferenceWritableKeyPath<Rare, Value?>) -> Value? {
        @inline(__always) get {
            guard let rare else { return nil }
            return rare[keyPath: member]
        }
        @inline(__always) set {
            if rare == nil {
                if newValue == nil { return }
                rare = Rare()
            }
            rare?[keyPath: member] = newValue
        }
    }

    /// The state of a new request.
    ///
    /// - Parameter flow: the flow of the previous exchange.
    init(_ request: TransferRequest, after flow: TransferState = TransferState()) {
        self.request = request
        self.flow = flow.next
    }

    /// The state of the same request, begun anew; keeps the counts of failed attempts and the waiting time.
    init(again earlier: borrowing Exchange) {
        self.init(earlier.request, after: earlier.flow)
        lostReplays = earlier.lostReplays
        isAlone = earlier.isAlone
        needsHTTP1 = earlier.needsHTTP1
        waitsSince = earlier.waitsSince
        start = earlier.start
        isReported = earlier.isReported
    }

    /// The state of the same request, answered by a stored response.
    init(_ replay: Replay, insteadOf earlier: borrowing Exchange) {
        self.init(again: earlier)
        address = earlier.address
        header = earlier.header
        self.cache = earlier.cache
        self.replay = replay
    }

    /// The head of the response, as far as it has arrived.
    var head: HeadParser { response.head }
    /// Whether the response refuses the request's `Expect`. libcurl then sends the request again.
    var isExpectationRefused: Bool { head.statusCode == 417 && header?.setsExpect == true }
    /// Whether nothing of the response is missing, by its head or its announced length (RFC 9112, section 6.3), whatever
    /// happens to its stream or connection. A head that libcurl may answer itself does not count.
    var isResponseComplete: Bool {
        guard head.isWhole, self.negotiation == nil, !isExpectationRefused else { return false }
        if request.method == "HEAD" || head.statusCode == 204 || head.statusCode == 304 { return true }
        return head.contentLength.map { response.received >= $0 } ?? false
    }
    /// What has arrived of the response. It is replaced alone if libcurl sends the request again.
    @dynamicMemberLookup
    struct Response: ~Copyable {
        var head = HeadParser()
        /// The head of the proxy's answer to CONNECT.
        var tunnelAnswer = TunnelAnswer()
        var dropsExpectation = false
        /// Whether the request must be sent over another connection.
        var isMisdirected = false
        /// The number of bytes of the body that were taken from libcurl, before decoding.
        var received: Int64 = 0
        /// Whether the body may be cut off although libcurl reports it as complete.
        var isUnproven = false
        /// How many bytes of an unneeded body were discarded.
        var discarded: Int { self.rest.map { $0.value.limit.isDiscarded ? $0.value.received : 0 } ?? 0 }

        /// What few responses have. The network thread's.
        final class Rare {
            /// A head to deliver only if the request is not sent again.
            @exclusivity(unchecked) var heldHead: ResponseHead?
            @exclusivity(unchecked) var decoder: ContentDecoder?
            /// The handshake of the connection whose end ends the body.
            @exclusivity(unchecked) var closure: TLSHandshake?
            /// The error with which the transfer must fail, found in a callback of libcurl.
            @exclusivity(unchecked) var failure: URLError?
            /// Limits how long the rest of the response is read; nil without a limit.
            @exclusivity(unchecked) var rest: URLConnection.Reference<RestMeter>?
            /// Stores the body.
            @exclusivity(unchecked) var cacheWriter: (any ResponseCacheWriter)?
        }

        /// Made when its first member is set.
        private var rare: Rare?

        subscript<Value>(dynamicMember member: ReferenceWritableKeyPath<Rare, Value?>) -> Value? {
            @inline(__always) get {
                guard let rare else { return nil }
                return rare[keyPath: member]
            }
            @inline(__always) set {
                if rare == nil {
                    if newValue == nil { return }
                    rare = Rare()
                }
                rare?[keyPath: member] = newValue
            }
        }
    }
}
