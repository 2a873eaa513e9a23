import ConvoySecurity
import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The common settings of a manager's operations. They share one object until a setting of one operation is changed, as
/// copying every setting into every operation would take longer than sending its request.
final class CommonSettings: @unchecked Sendable {
    struct Values: Sendable {
        var transport: any Transport = NetworkThread.shared
        var clock: any SchedulingClock = MonotonicClock()
        var configuration = ConnectionConfiguration()
        var completionQueue: DispatchQueue?
        var completionGroup: DispatchGroup?
        var userInfo: [String: any Sendable] = [:]
        /// nil until it is chosen.
        var dependencyFailurePolicy: DependencyFailurePolicy?
        var postsNotifications = true
        var collectsMetrics = false
        /// Who hears what happens to the operation.
        var eventMonitors: [EventMonitor] = []
        /// Whether the operation does a part of another's work.
        var isPart = false
        var retryPolicy: RetryPolicy?
        var waitsForConnectivity = false
        /// How long a transfer may be without a byte, if that is not for the request to say.
        var idleTimeout: TimeInterval?
        var totalTimeout: TimeInterval?
        /// Limits of one operation, besides those of the configuration.
        var receiveRateLimit: RateLimit?
        var sendRateLimit: RateLimit?
        var coalesces = false
        /// Whether requests that have no `User-Agent` get the standard one. Not those of a manager: its serializer names
        /// one, unless that was taken away.
        var addsUserAgent = true
        var maximumBodySize = 256 << 20
        var responseStringEncoding: String.Encoding?
        /// Set if the body of a plainly acceptable response is left to the awaiting task.
        var awaitedValue: (any PlainJSONAcceptance)?
        var credential: URLCredential?
        var usesCredentialStore = true
        /// A manager's is made with it, and an operation's own with its first use.
        var credentialStore: CredentialStore?
        var authenticator: Authenticator?
        /// Where the credential and the tokens go; nil for everywhere, if a manager has no base URL.
        var authorizedTargets: Set<Target>?
        /// What keeps the cookies; nil for none.
        var cookies: CookieKeeperReference?
        /// The cache of responses; nil for none.
        var cache: ResponseCacheReference?
        var serializer = SerializerFacts(HTTPResponseSerializer())

        /// Whether the requests are measured, for the metrics or for monitors.
        var wantsTransactions: Bool { collectsMetrics || !eventMonitors.isEmpty }
    }

    // Changed only while one operation has the only reference, under that operation's lock.
    @exclusivity(unchecked) var values: Values

    init(_ values: Values = Values()) { self.values = values }

    /// The default settings.
    static let standard = CommonSettings()
}

/// A response serializer, and the answers to what the engine asks of it. They are computed once, because the network
/// thread runs no user code, and because conformance checks are slow.
struct SerializerFacts: Sendable {
    let serializer: any HTTPResponseSerialization
    /// The same, if it is the one that parses nothing.
    let plain: HTTPResponseSerializer?
    /// How much it parses at most; nil for the one that parses nothing.
    let parsingLimit: Int?
    /// Which statuses it accepts; nil for all.
    let acceptableStatusCodes: StatusCodeSet?

    init(_ serializer: any HTTPResponseSerialization) {
        self.serializer = serializer
        plain = serializer as? HTTPResponseSerializer
        parsingLimit = plain == nil ? serializer.limits.maximumBodySize : nil
        acceptableStatusCodes = serializer.acceptableStatusCodes
    }
}
