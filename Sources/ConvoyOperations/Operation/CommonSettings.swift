import ConvoySerialization
import ConvoySupport
import ConvoyTransport
import Foundation
import FoundationNetworking

/// The settings that operations of one manager have in common. They share one object until one of them is set
/// differently: to copy each setting into each operation would take longer than to send its request.
final class CommonSettings: @unchecked Sendable {
    struct Values: Sendable {
        var transport: any Transport = NetworkThread.shared
        var clock: any SchedulingClock = MonotonicClock()
        var configuration = ConnectionConfiguration()
        var completionQueue: DispatchQueue?
        var completionGroup: DispatchGroup?
        var userInfo: [String: any Sendable] = [:]
        var dependencyFailurePolicy = DependencyFailurePolicy.run
        var postsNotifications = true
        var retryPolicy: RetryPolicy?
        /// How long a transfer may be without a byte, if that is not for the request to say.
        var idleTimeout: TimeInterval?
        var timeoutIntervalForResource: TimeInterval?
        var coalesces = false
        var maximumBodySize = 256 << 20
        var responseStringEncoding: String.Encoding?
        /// Set where the body of a plainly acceptable response is left to the task that awaits it.
        var awaitedValue: (any PlainJSONAcceptance)?
        /// The host of requests that were prepared for the manager's base URL.
        var baseHost: HostKey?
        var serializer = SerializerFacts(HTTPResponseSerializer())
    }

    // Changed only by the one that refers to it, under the lock of its operation.
    @exclusivity(unchecked) var values: Values

    init(_ values: Values = Values()) { self.values = values }

    /// Those of an operation that nothing was set for.
    static let standard = CommonSettings()
}

/// A response serializer, and what the engine asks it, asked once: the network thread runs no code of a user's, and
/// what a value conforms to takes long to find out.
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
