import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// What a connection knows of one request and of the response to it.
///
/// It is replaced whole where another exchange begins: with each redirect, where the same request is begun anew, and where
/// a stored response is delivered in place of the network's. Nothing of the earlier one is left then, but for what an
/// initializer names.
struct Exchange: ~Copyable {
    /// The request as it is sent.
    var request: TransferRequest
    /// Where it goes; nil until its URL has been read.
    var address: HTTPAddress?
    /// The header of the request, against which the response is checked; nil until that is made.
    var header: RequestHeader?
    /// The way to the server; nil for the direct one.
    var route: Route?
    /// With whom and how TLS is spoken, should it be.
    var tls: TLSContext?
    /// Whether TLS is spoken, with the server or with a proxy.
    var speaksTLS = false
    /// Whom libcurl authenticates, over several messages; nil where it does not.
    var negotiation: Negotiation?
    var body: (any BodySource)?
    var sentBytes: Int64 = 0
    /// Whether some of the request's body has been sent, and some has not.
    var isSendingBody = false

    var response = Response()
    /// What holds the response up, and what is kept waiting meanwhile.
    var flow: TransferState
    /// How libcurl has ended the transfer, while that has to wait.
    var heldResult: CURLcode?
    var times = TransferTimes()
    /// Nil where the exchange may be as slow as it likes.
    var stallMeter: URLConnection.Reference<StallMeter>?

    /// What goes on between the request and the cache; nil where that was not asked.
    var cache: (any ResponseCacheExchange)?
    /// The stored response that is being delivered.
    var replay: Replay?
    /// How often a stored body could not be read, so that the request was begun anew.
    var lostReplays = 0

    /// The thread's count of descriptor shortages when libcurl got the request.
    var earlierShortages = 0
    /// Since when the request lacks a descriptor for its connection; 0 if it did not.
    var waitsSince: MonotonicTime = 0
    /// When the request began, which has to wait; nil if nothing measures it.
    var start: StartMoment?
    /// Whether the delegate knows of the request, and expects its metrics.
    var isReported = false

    /// That of a request about which nothing is known yet.
    ///
    /// - Parameter flow: that of the exchange before.
    init(_ request: TransferRequest, after flow: TransferState = TransferState()) {
        self.request = request
        self.flow = flow.next
    }

    /// That of the same request, begun anew, which remembers how often and how long it was tried in vain.
    init(again earlier: borrowing Exchange) {
        self.init(earlier.request, after: earlier.flow)
        lostReplays = earlier.lostReplays
        waitsSince = earlier.waitsSince
        start = earlier.start
        isReported = earlier.isReported
    }

    /// That of the same request, which a stored response answers.
    init(_ replay: Replay, insteadOf earlier: borrowing Exchange) {
        self.init(again: earlier)
        address = earlier.address
        header = earlier.header
        cache = earlier.cache
        self.replay = replay
    }

    /// What has come of the head of the response.
    var head: HeadParser { response.head }
    /// Whether the response refuses what the request's `Expect` asks for. libcurl then sends the request again.
    var isExpectationRefused: Bool { head.statusCode == 417 && header?.setsExpect == true }
    /// What has come of the response. libcurl may send a request again, and then this is replaced alone.
    struct Response {
        var head = HeadParser()
        /// The head of the proxy's answer to CONNECT.
        var tunnelAnswer = TunnelAnswer()
        /// A head that is delivered only if the request is not sent again.
        var heldHead: ResponseHead?
        var dropsExpectation = false
        var decoder: ContentDecoder?
        /// The handshake of the connection, where its end is the end of the body.
        var closure: TLSHandshake?
        /// Whether the body may have been cut off where libcurl says that it is whole.
        var isUnproven = false
        /// The error with which the transfer must fail, found in one of libcurl's callbacks.
        var failure: URLError?
        /// How long the rest is waited for; nil for one that is waited for as long as it comes.
        var rest: URLConnection.Reference<RestMeter>?
        /// How many bytes of a body were discarded that was not needed.
        var discarded: Int { rest.map { $0.value.limit.isDiscarded ? $0.value.received : 0 } ?? 0 }
        /// Stores the body.
        var cacheWriter: (any ResponseCacheWriter)?
    }
}
