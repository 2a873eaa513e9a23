import ConvoySerialization
import ConvoyTransport
import Foundation

/// The values that each operation needs from its settings, prepared once for all operations with the same settings.
/// Copying the settings or assembling a connection configuration for each operation would double the cost of its start.
final class AttemptSettings: Sendable {
    /// The configuration of the connections.
    let configuration: ConnectionConfiguration
    let transport: any Transport
    let idleTimeout: TimeInterval?
    let hasTotalTimeout: Bool
    let hasRetryPolicy: Bool
    let hasAuthenticator: Bool
    let coalescesIdenticalRequests: Bool
    let dependencyFailurePolicy: DependencyFailurePolicy?
    let postsNotifications: Bool
    let completionQueue: DispatchQueue?
    let completionGroup: DispatchGroup?
    /// The serializer that decodes the body of an acceptable response on the awaiting task.
    let awaitedValue: (any DirectJSONDecoding)?
    /// Whether `awaitedValue` is set. Checking `awaitedValue` itself would copy it.
    let hasAwaitedValue: Bool
    /// The maximum size of a body in memory that is parsed, in bytes.
    let parsedBodyLimit: Int
    /// The maximum size of a body in memory that is not parsed, in bytes.
    let bodyLimit: Int
    /// Whether the body of a response with an acceptable status code is delivered unchanged.
    private let deliversBodies: Bool
    private let acceptableStatusCodes: StatusCodeSet?

    init(_ values: __shared RequestSettings.Values) {
        var configuration = values.connectionConfiguration
        configuration.addsUserAgent = values.holder.addsUserAgent
        configuration.answersChallenges = true
        configuration.collectsMetrics = values.wantsTransactions
        if let limit = values.receiveRateLimit { configuration.receiveRateLimits.append(limit) }
        if let limit = values.sendRateLimit { configuration.sendRateLimits.append(limit) }
        configuration.cookies = values.cookies
        configuration.cache = values.storedResponses
        self.configuration = configuration
        transport = values.holder.transport
        idleTimeout = values.idleTimeout
        hasTotalTimeout = values.totalTimeout != nil
        hasRetryPolicy = values.retryPolicy != nil
        hasAuthenticator = values.authenticator != nil
        coalescesIdenticalRequests = values.coalescesIdenticalRequests
        dependencyFailurePolicy = values.chosenDependencyFailurePolicy
        postsNotifications = values.areNotificationsPosted
        completionQueue = values.completionQueue
        completionGroup = values.completionGroup
        awaitedValue = values.holder.awaitedValue
        hasAwaitedValue = awaitedValue != nil
        bodyLimit = values.maximumBodySize
        parsedBodyLimit = min(values.maximumBodySize, values.serializer.parsingLimit ?? .max)
        deliversBodies = values.serializer.plain?.acceptableContentTypes == nil && values.serializer.plain != nil
        acceptableStatusCodes = values.serializer.acceptableStatusCodes
    }

    /// Returns whether a response needs no serializer: its status code is acceptable, every content type is acceptable,
    /// and the body is the result.
    func deliversBody(ofStatus statusCode: Int) -> Bool {
        deliversBodies && acceptableStatusCodes?.contains(statusCode) ?? true
    }
}

/// A response serializer and its properties, which are read once because the network thread must not run user code and
/// conformance checks are slow.
struct PreparedSerializer: Sendable {
    let serializer: any HTTPResponseSerialization
    /// The serializer if it is an `HTTPResponseSerializer`, which parses nothing; otherwise nil.
    let plain: HTTPResponseSerializer?
    /// The maximum body size that the serializer parses, in bytes; nil if it parses nothing.
    let parsingLimit: Int?
    /// The status codes that the serializer accepts; nil for all.
    let acceptableStatusCodes: StatusCodeSet?
    private let takesDecoder: Bool

    init(_ serializer: any HTTPResponseSerialization) {
        self.serializer = serializer
        plain = serializer as? HTTPResponseSerializer
        parsingLimit = plain == nil ? serializer.limits.maximumBodySize : nil
        acceptableStatusCodes = serializer.acceptableStatusCodes
        takesDecoder = serializer is any DecoderInheriting
    }

    /// Returns the serializer, which uses the given decoder unless it has its own.
    func serializer(decodingBy decoder: JSONDecoder?) -> any HTTPResponseSerialization {
        guard takesDecoder, let decoder else { return serializer }
        return (serializer as? any DecoderInheriting)?.taking(decoder) ?? serializer
    }
}

extension RequestSettings.Values {
    /// Returns the name of a changed setting that an attempt reads only when it starts; nil if no such setting has
    /// changed.
    func lateChange(from old: Self) -> String? {
        let changes = [
            ("cache", storedResponses != old.storedResponses),
            ("coalescesIdenticalRequests", coalescesIdenticalRequests != old.coalescesIdenticalRequests),
            ("collectsMetrics", collectsMetrics != old.collectsMetrics),
            ("completionGroup", completionGroup !== old.completionGroup),
            ("cookieStore", cookies != old.cookies),
            ("dependencyFailurePolicy", chosenDependencyFailurePolicy != old.chosenDependencyFailurePolicy),
            ("identity", identity != old.identity),
            ("idleTimeout", idleTimeout != old.idleTimeout),
            ("maximumBodySize", maximumBodySize != old.maximumBodySize),
            ("receiveRateLimit", receiveRateLimit != old.receiveRateLimit),
            ("securityPolicy", securityPolicy != old.securityPolicy),
            ("sendRateLimit", sendRateLimit != old.sendRateLimit),
            ("stallLimit", stallLimit != old.stallLimit),
            ("totalTimeout", totalTimeout != old.totalTimeout),
            ("connectionConfiguration", connectionConfiguration != old.connectionConfiguration),
        ]
        return changes.first { $0.1 }?.0
    }
}
