import CCurl
import ConvoySecurity
import ConvoySupport
import Foundation

/// What a connection knows of one request and of the response to it.
///
/// It is replaced whole where another exchange begins: with each redirect, where the same request is begun anew, and where
/// a stored response is delivered in place of the network's. Nothing of the earlier one is left then, but for what an
/// initializer names.
struct Exchange {
    /// The request as it is sent.
    var request: TransferRequest
    /// How the request is sent; nil until that is known.
    var outgoing: Outgoing?
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
    init(again earlier: Exchange) {
        self.init(earlier.request, after: earlier.flow)
        (lostReplays, waitsSince) = (earlier.lostReplays, earlier.waitsSince)
        (start, isReported) = (earlier.start, earlier.isReported)
    }

    /// That of the same request, which a stored response answers.
    init(_ replay: Replay, insteadOf earlier: Exchange) {
        self.init(again: earlier)
        (outgoing, cache, self.replay) = (earlier.outgoing, earlier.cache, replay)
    }

    /// Where the request goes; nil until its URL has been read.
    var address: HTTPAddress? { outgoing?.address }
    /// The header of the request, against which the response is checked.
    var header: RequestHeader? { outgoing?.header }
    /// What has come of the head of the response.
    var head: HeadParser { response.head }
    /// Whether the response refuses what the request's `Expect` asks for. libcurl then sends the request again.
    var isExpectationRefused: Bool { head.statusCode == 417 && header?.setsExpect == true }
    /// Whether libcurl authenticates the connection, in several messages.
    var negotiates: Bool { outgoing?.negotiation != nil }

    /// How a request is sent that is ready for it.
    struct Outgoing {
        /// What libcurl is given: a URL that leads to the target and to no other.
        let address: HTTPAddress
        var header: RequestHeader
        let route: Route?
        let tls: TLSContext
        /// Whether TLS is spoken, with the server or with a proxy.
        let speaksTLS: Bool
        let negotiation: Negotiation?

        var target: Target { address.target }
        var isSecure: Bool { address.target.isSecure }
    }

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
        /// The error with which the transfer must fail, found in one of libcurl's callbacks.
        var failure: URLError?
        /// How many bytes of a body were discarded that was not needed.
        var discarded = 0
        /// Stores the body.
        var cacheWriter: (any ResponseCacheWriter)?
    }
}
