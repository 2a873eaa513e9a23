import ConvoySecurity
import ConvoySupport
import Foundation
import FoundationNetworking

/// The state of a chain for one request and its response.
///
/// It is replaced as a whole when another exchange begins: on each redirect, when the same request is restarted, and
/// when a stored response replaces the network's. Only the values that an initializer copies are carried over.
@dynamicMemberLookup
struct ChainStep: ~Copyable {
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
    /// The holds on the response, and the state of held bytes.
    var flow: TransferState

    /// The number of times that the request was restarted because a stored body could not be read.
    var lostBodies = 0
    /// Whether the request needs a dedicated connection.
    var isAlone = false
    /// Whether the server requires HTTP/1.1 for the request.
    var needsHTTP1 = false
    /// The time since which the request has been waiting for a descriptor; 0 if it has not waited.
    var waitsSince: MonotonicTime = 0
    /// The time at which the request began; nil if metrics are not collected.
    var start: StartMoment?
    /// Whether the request has been reported to the delegate, which then expects its metrics.
    var isReported = false

    /// The values that only a few steps need. Used on the network thread only.
    final class Rare {
        /// The route to the server; nil for a direct connection.
        @exclusivity(unchecked) var route: Route?
        /// The credentials with which libcurl authenticates the connection itself, in several messages; nil for none.
        @exclusivity(unchecked) var negotiation: Negotiation?
        /// The exchange with the cache; nil if the cache is not used.
        @exclusivity(unchecked) var cache: (any ResponseCacheExchange)?
        /// The stored response that is being delivered.
        @exclusivity(unchecked) var stored: StoredExchange?
        @exclusivity(unchecked) var decoder: ContentDecoder?
        /// The writer that stores the body in the cache.
        @exclusivity(unchecked) var cacheWriter: (any ResponseCacheWriter)?
        /// The error with which the transfer must fail, found in a callback of the exchange.
        @exclusivity(unchecked) var failure: URLError?
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
    /// - Parameter flow: The flow of the previous step.
    init(_ request: TransferRequest, after flow: TransferState = TransferState()) {
        self.request = request
        self.flow = flow.next
    }

    /// Creates the state for restarting the same request, keeping the counts of failed attempts and the waiting time.
    init(again earlier: borrowing ChainStep) {
        self.init(earlier.request, after: earlier.flow)
        lostBodies = earlier.lostBodies
        isAlone = earlier.isAlone
        needsHTTP1 = earlier.needsHTTP1
        waitsSince = earlier.waitsSince
        start = earlier.start
        isReported = earlier.isReported
    }

    /// Creates the state for the same request when a stored response answers it.
    init(_ stored: StoredExchange, insteadOf earlier: borrowing ChainStep) {
        self.init(again: earlier)
        address = earlier.address
        header = earlier.header
        self.cache = earlier.cache
        self.stored = stored
    }
}
