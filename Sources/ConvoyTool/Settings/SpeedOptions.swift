import Convoy
import Foundation

/// The options for how many transfers run at a time, how fast, how long, and how often they are tried.
struct SpeedOptions {
    let jobs: Int
    private let jobsPerHost: Int?
    /// What all transfers of the run have together; nil for no limit.
    private let limit: RateLimit?
    private let leastRate: Int64?
    /// Seconds between two starts at one host.
    private let wait: Double
    private var policy = RetryPolicy()
    let maximumTime: TimeInterval?
    private let connectTimeout: TimeInterval?

    init(_ options: Options) throws(ToolError) {
        jobs = try options.integer("jobs", in: 1...256) ?? 6
        jobsPerHost = try options.integer("jobs-per-host", in: 1...256)
        limit = try Self.rate("limit-rate", options).map { RateLimit(bytesPerSecond: $0) }
        leastRate = try Self.rate("min-rate", options)
        wait = try options.seconds("wait") ?? 0
        if let count = try options.integer("retry", in: 0...1000) {
            policy.maximumRetryCount = count
        } else if options.command == .run {
            // What a manifest does need not be harmless a second time.
            policy.maximumRetryCount = 0
        } else {
            // A name that is mistyped should not take seconds to say so.
            policy.errorCodes.subtract([.cannotFindHost, .dnsLookupFailed, .cannotConnectToHost])
        }
        policy.maximumDuration = try options.seconds("retry-max-time")
        maximumTime = try options.seconds("max-time")
        connectTimeout = try options.seconds("connect-timeout")
    }

    func apply(to manager: HTTPRequestOperationManager) {
        // A queue without a limit per host, unless the user has one.
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = jobs
        if wait > 0 { queue.maximumStartRatePerHost = StartRate(perSecond: 1 / wait) }
        if let jobsPerHost { queue.maxConcurrentOperationCountPerHost = jobsPerHost }
        manager.operationQueue = queue
    }

    func apply(to configuration: inout ConnectionConfiguration) {
        configuration.timeoutIntervalForConnecting = connectTimeout
        if let leastRate { configuration.stallLimit = StallLimit(bytesPerSecond: leastRate, duration: 30) }
    }

    func apply(to operation: URLConnectionOperation) {
        operation.retryPolicy = policy.maximumRetryCount > 0 ? policy : nil
        operation.totalTimeout = maximumTime
        operation.receiveRateLimit = limit
    }

    private static func rate(_ name: String, _ options: Options) throws(ToolError) -> Int64? {
        guard let text = options.value(name) else { return nil }
        guard let rate = rate(text) else { throw options.usage("--\(name) takes bytes a second: 500k, 2M, 1.5M") }
        return rate
    }

    /// Bytes per second of a text like `500k` or `1.5M`; nil for anything else. The units are powers of 1024, as with curl,
    /// wget and aria2.
    static func rate(_ text: String) -> Int64? {
        let factors: [Character: Double] = ["k": 0x1p10, "m": 0x1p20, "g": 0x1p30]
        var digits = text[...]
        var factor = 1.0
        if let last = text.lowercased().last, let unit = factors[last] {
            factor = unit
            digits.removeLast()
        }
        guard digits.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), let number = Double(digits) else {
            return nil
        }
        let bytes = (number * factor).rounded()
        return bytes >= 1 && bytes < 1e15 ? Int64(bytes) : nil
    }
}
