import Foundation

/// How long a call may take, in seconds.
///
/// ```swift
/// let users: [User] = try await manager.get("users", timeout: 10)             // ten seconds in all
/// let log: String = try await manager.get("log", timeout: .idle(5))           // five without a byte
/// let all: Data = try await manager.get("all", timeout: .init(idle: 5, total: 600))
/// ```
///
/// Both end in `URLError.timedOut`.
public struct Timeout: Sendable, Hashable {
    /// How long the transfer may be without a byte. nil leaves it as the request or the manager has it, which is 60
    /// unless set.
    public var idle: TimeInterval?
    /// How long the operation may take in all: waiting for its retries, and its pauses, included. nil leaves it as the
    /// manager has it, which is no limit unless set.
    public var total: TimeInterval?

    /// Limits for both, or for one of them.
    public init(idle: TimeInterval? = nil, total: TimeInterval? = nil) {
        self.idle = idle
        self.total = total
    }

    /// How long the transfer may be without a byte.
    public static func idle(_ seconds: TimeInterval) -> Timeout { Timeout(idle: seconds) }
    /// How long the operation may take in all.
    public static func total(_ seconds: TimeInterval) -> Timeout { Timeout(total: seconds) }
}

extension Timeout: ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    /// Seconds in all.
    public init(integerLiteral value: Int) { self.init(total: TimeInterval(value)) }
    /// Seconds in all.
    public init(floatLiteral value: Double) { self.init(total: value) }
}
