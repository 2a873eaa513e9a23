import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// The state of a connection for one request and its response.
///
/// It is replaced as a whole when another exchange begins: on each redirect, when the same request is restarted, and
/// when a stored response replaces the network's. Only the values that an initializer copies are carried over.
@dynamicMemberLookup
struct Exchange: ~Copyable {
    /// The request as it is sent.
    var request: TransferRequest
    /// The server and URL of the request; nil until the URL has been parsed.
    var address: HTTPAddress?
    /// The header of the request, against which the response is checked; nil until it has been created.
    var header: RequestHeader?
    /// The TLS context, if TLS is used.
    var tls: TLSContext?
    /// Whether TLS is used with the server or with a proxy.
    var speaksTLS = false
    var body: (any BodySource)?
    var sentBytes: Int64 = 0
    /// Whether the request's body has been sent only in part.
    var isSendingBody = false

    var response = Response()
    /// The holds on the response, and the state of held bytes.
    var flow: TransferState
    /// The result that libcurl reported for the transfer, kept while the end is held back.
    var heldResult: CURLcode?
    var times = TransferTimes()
    /// The number of times that the request was restarted because a stored body could not be read.
    var lostReplays = 0
    /// Whether the request needs a dedicated connection.
    var isAlone = false
    /// Whether the server requires HTTP/1.1 for the request.
    var needsHTTP1 = false

    /// The thread's count of descriptor shortages when the request was passed to libcurl.
    var earlierShortages = 0
    /// The time since which the request has been waiting for a descriptor; 0 if it has not waited.
    var waitsSince: MonotonicTime = 0
    /// The time at which the request began; nil if metrics are not collected.
    var start: StartMoment?
    /// Whether the request has been reported to the delegate, which then expects its metrics.
    var isReported = false

    /// The values that only a few exchanges need. Used on the network thread only.
    final class Rare {
        /// The route to the server; nil for a direct connection.
        @exclusivity(unchecked) var route: Route?
        /// The credentials with which libcurl authenticates the connection itself, in several messages; nil for none.
        @exclusivity(unchecked) var negotiation: Negotiation?
        /// The meter for the stall limit; nil without a limit.
        @exclusivity(unchecked) var stallMeter: URLConnection.Reference<StallMeter>?
        /// The exchange with the cache; nil if the cache is not used.
        @exclusivity(unchecked) var cache: (any ResponseCacheExchange)?
        /// The stored response that is being delivered.
        @exclusivity(unchecked) var replay: StoredResponseDelivery?
    }

    /// The rarely needed values, allocated when one of them is first set.
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

    /// Creates the state of a new request.
    ///
    /// - Parameter flow: The flow of the previous exchange.
    init(_ request: TransferRequest, after flow: TransferState = TransferState()) {
        self.request = request
        self.flow = flow.next
    }

    /// Creates the state for restarting the same request, keeping the counts of failed attempts and the waiting time.
    init(again earlier: borrowing Exchange) {
        self.init(earlier.request, after: earlier.flow)
        lostReplays = earlier.lostReplays
        isAlone = earlier.isAlone
        needsHTTP1 = earlier.needsHTTP1
        waitsSince = earlier.waitsSince
        start = earlier.start
        isReported = earlier.isReported
    }

    /// Creates the state for the same request when a stored response answers it.
    init(_ replay: StoredResponseDelivery, insteadOf earlier: borrowing Exchange) {
        self.init(again: earlier)
        address = earlier.address
        header = earlier.header
        self.cache = earlier.cache
        self.replay = replay
    }

    /// The part of the response head that has arrived.
    var head: HeadParser { response.head }
    /// Whether the response rejects the request's `Expect`. libcurl then sends the request again.
    var isExpectationRefused: Bool { head.statusCode == 417 && header?.setsExpect == true }
    /// Whether the response is complete according to its head or its announced length (RFC 9112, section 6.3),
    /// regardless of what happens to its stream or connection afterwards. A head to which libcurl may respond itself
    /// does not count.
    var isResponseComplete: Bool {
        guard head.isWhole, self.negotiation == nil, !isExpectationRefused else { return false }
        if request.method == "HEAD" || head.statusCode == 204 || head.statusCode == 304 { return true }
        return head.contentLength.map { response.received >= $0 } ?? false
    }
    /// The part of the response that has arrived. It is replaced separately if libcurl sends the request again.
    @dynamicMemberLookup
    struct Response: ~Copyable {
        var head = HeadParser()
        /// The head of the proxy's response to CONNECT.
        var tunnelAnswer = ConnectResponse()
        var dropsExpectation = false
        /// Whether the request must be sent over a different connection.
        var isMisdirected = false
        /// The number of bytes of the body received from libcurl, before decoding.
        var received: Int64 = 0
        /// Whether the body may be truncated although libcurl reports it as complete.
        var isUnproven = false
        /// The number of discarded bytes of an unneeded body.
        var discarded: Int { self.rest.map { $0.value.limit.isDiscarded ? $0.value.received : 0 } ?? 0 }

        /// The values that only a few responses need. Used on the network thread only.
        final class Rare {
            /// A head that is delivered only if the request is not sent again.
            @exclusivity(unchecked) var heldHead: ResponseHead?
            @exclusivity(unchecked) var decoder: ContentDecoder?
            /// The TLS session of a connection whose close marks the end of the body.
            @exclusivity(unchecked) var closure: TLSHandshake?
            /// The error with which the transfer must fail, found in a libcurl callback.
            @exclusivity(unchecked) var failure: URLError?
            /// The meter that limits how long the rest of the response is read; nil for no limit.
            @exclusivity(unchecked) var rest: URLConnection.Reference<DrainMeter>?
            /// The writer that stores the body in the cache.
            @exclusivity(unchecked) var cacheWriter: (any ResponseCacheWriter)?
        }

        /// The rarely needed values, allocated when one of them is first set.
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
