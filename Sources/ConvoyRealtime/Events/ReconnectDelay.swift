import Foundation

/// How long a source waits before it connects again.
struct ReconnectDelay: Sendable {
    /// No server makes a client wait for longer than a day.
    static let longest: TimeInterval = 86_400

    /// Seconds, as asked for by the user or the server.
    let interval: TimeInterval
    /// To what the delay grows, in seconds, unless the interval is longer.
    let maximum: TimeInterval

    init(interval: TimeInterval, maximum: TimeInterval) {
        self.interval = Self.bounded(interval)
        self.maximum = max(Self.bounded(maximum), self.interval)
    }

    /// A number of seconds, whatever the settings are.
    static func bounded(_ seconds: TimeInterval) -> TimeInterval { seconds > 0 ? min(seconds, longest) : 0 }

    /// The delay in seconds.
    ///
    /// - Parameters:
    ///   - failures: how many connections in a row have brought no event.
    ///   - random: from 0 to 1.
    ///   - retryAfter: what the server has asked for in its answer, in seconds.
    func seconds(after failures: Int, random: Double, retryAfter: TimeInterval? = nil) -> TimeInterval {
        guard failures > 1 else { return max(interval, Self.bounded(retryAfter ?? 0)) }
        // An interval of 0 asks for the next answer at once, and not for a storm where there is none.
        let grown = min(maximum, max(interval, 0.1) * pow(2, Double(min(failures - 1, 64))))
        return max(interval, Self.bounded(retryAfter ?? 0), grown * (0.5 + 0.5 * random))
    }
}
