import Convoy
import Foundation

/// The options for concurrency, rates, timeouts and retries.
struct SpeedOptions {
    let jobs: Int
    private let jobsPerHost: Int?
    /// The rate limit for all transfers together, or nil.
    let limit: RateLimit?
    /// The rate limit of each transfer, in bytes per second, or nil.
    let limitOfEach: Int64?
    private let leastRate: Int64?
    /// The delay between two starts at one host, in seconds, or nil.
    private let wait: ClosedRange<Double>?
    private var policy = RetryPolicy()
    let maximumTime: TimeInterval?
    private let connectTimeout: TimeInterval?

    init(_ options: Options) throws(ToolError) {
        jobs = try options.integer("jobs", in: 1...256) ?? 6
        jobsPerHost = try options.integer("jobs-per-host", in: 1...256)
        limit = try Self.rate("limit-rate", options).map { RateLimit(bytesPerSecond: $0) }
        limitOfEach = try Self.rate("limit-rate-each", options)
        leastRate = try Self.rate("min-rate", options)
        wait = try Self.wait(options)
        if let count = try options.integer("retry", in: 0...1000) {
            policy.maximumRetryCount = count
        } else if options.command == .run {
            // Requests of a manifest are not necessarily safe to repeat.
            policy.maximumRetryCount = 0
        } else {
            // A mistyped host name should fail immediately.
            policy.errorCodes.subtract([.cannotFindHost, .dnsLookupFailed, .cannotConnectToHost])
        }
        for text in options.all("retry-on") {
            for status in text.split(separator: ",", omittingEmptySubsequences: false) {
                guard let number = Int(status), (400...599).contains(number) else {
                    throw options.usage("--retry-on takes statuses from 400 to 599: 404,409")
                }
                policy.statusCodes.insert(number)
            }
        }
        policy.maximumDuration = try options.seconds("retry-max-time")
        maximumTime = try options.seconds("max-time")
        connectTimeout = try options.seconds("connect-timeout")
    }

    /// The maximum number of concurrent transfers per host.
    var jobsOfOneHost: Int { wait == nil ? min(jobs, jobsPerHost ?? jobs) : 1 }

    func apply(to manager: HTTPRequestOperationManager) {
        // A new queue has no limit per host by default.
        let queue = RequestOperationQueue()
        queue.maxConcurrentOperationCount = jobs
        if let wait {
            let middle = (wait.lowerBound + wait.upperBound) / 2
            queue.maximumStartRatePerHost = StartRate(perSecond: 1 / middle, spread: wait.upperBound / middle - 1)
        }
        if let jobsPerHost { queue.maxConcurrentOperationCountPerHost = jobsPerHost }
        manager.operationQueue = queue
    }

    /// Sets the limits per host.
    func applyHostLimits(to manager: HTTPRequestOperationManager) {
        if let wait {
            let middle = (wait.lowerBound + wait.upperBound) / 2
            manager.maximumStartRatePerHost = StartRate(perSecond: 1 / middle, spread: wait.upperBound / middle - 1)
        }
        if let jobsPerHost { manager.maxConcurrentOperationCountPerHost = jobsPerHost }
    }

    func apply(to configuration: inout ConnectionConfiguration) {
        configuration.timeoutIntervalForConnecting = connectTimeout
        if let limitOfEach { configuration.receiveRateLimits.append(RateLimit(bytesPerSecond: limitOfEach)) }
        if let leastRate { configuration.stallLimit = StallLimit(bytesPerSecond: leastRate, duration: 30) }
    }

    func apply(to operation: URLConnectionOperation) {
        operation.retryPolicy = policy.maximumRetryCount > 0 ? policy : nil
        operation.totalTimeout = maximumTime
        operation.receiveRateLimit = limit
        // Only uploads have large request bodies.
        if operation is UploadOperation { operation.sendRateLimit = limit }
    }

    /// Applies the rates of all transfers together to a request of a storage.
    func applyRates(to operation: URLConnectionOperation) {
        operation.receiveRateLimit = limit
        operation.sendRateLimit = limit
    }

    /// The retry policy for the requests of a storage, all of which can be repeated.
    var storagePolicy: RetryPolicy? {
        var policy = policy
        policy.idempotentMethods.insert("POST")
        return policy.maximumRetryCount > 0 ? policy : nil
    }

    private static func rate(_ name: String, _ options: Options) throws(ToolError) -> Int64? {
        guard let text = options.value(name) else { return nil }
        guard let rate = rate(text) else { throw options.usage("--\(name) takes bytes per second: 500k, 2M, 1.5M, 512Ki") }
        return rate
    }

    /// Returns the seconds between two starts, given as one number or as a range: `2-5`.
    private static func wait(_ options: Options) throws(ToolError) -> ClosedRange<Double>? {
        guard let text = options.value("wait") else { return nil }
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { Double($0) }
        guard (1...2).contains(ends.count), let first = ends[0], let last = ends[ends.count - 1], first.isFinite,
            last.isFinite, first >= 0, last >= first, last <= 1e9
        else { throw options.usage("--wait takes a number of seconds, or a range such as 2-5") }
        return last > 0 ? first...last : nil
    }

    /// Parses bytes per second such as `500k` or `1.5Mi`, and returns nil for any other string. `k`, `M` and `G` are
    /// powers of 1000, as in printed rates; `Ki`, `Mi` and `Gi` are powers of 1024.
    static func rate(_ text: String) -> Int64? {
        var digits = text.lowercased()[...]
        let isBinary = digits.hasSuffix("i")
        if isBinary { digits.removeLast() }
        var factor = 1.0
        if let power = digits.last.flatMap({ ["k": 1.0, "m": 2, "g": 3][$0] }) {
            factor = pow(isBinary ? 1024 : 1000, power)
            digits.removeLast()
        } else if isBinary {
            return nil
        }
        guard digits.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), let number = Double(digits) else {
            return nil
        }
        let bytes = (number * factor).rounded()
        return bytes >= 1 && bytes < 1e15 ? Int64(bytes) : nil
    }
}
