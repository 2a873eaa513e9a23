import ConvoySerialization
import ConvoyTransport
import Foundation

/// How fast and how slow an operation's transfers may be.
extension URLConnectionOperation {
    /// A limit of how many bytes of the response come in a second; nil, the default, for none. It holds besides that of
    /// the manager (`connectionConfiguration.receiveRateLimits`) and `RateLimit.shared`.
    ///
    /// Read at the beginning of each try. The rate itself can be changed at any time, and counts at once.
    public final var receiveRateLimit: RateLimit? {
        get { core.withLock { $0.common.values.receiveRateLimit } }
        set { set(\.receiveRateLimit, to: newValue) }
    }

    /// A limit of how many bytes of the request's body are sent in a second; nil, the default, for none. It holds besides
    /// that of the manager (`connectionConfiguration.sendRateLimits`) and `RateLimit.sharedForSending`.
    ///
    /// Read at the beginning of each try. The rate itself can be changed at any time, and counts at once.
    public final var sendRateLimit: RateLimit? {
        get { core.withLock { $0.common.values.sendRateLimit } }
        set { set(\.sendRateLimit, to: newValue) }
    }

    /// How slow a transfer may be, before the try fails with `URLError.timedOut`; nil for no such limit. That of
    /// `connectionConfiguration`, and so the manager's unless another one is set.
    public final var stallLimit: StallLimit? {
        get { core.withLock { $0.common.values.configuration.stallLimit } }
        set { change { $0.configuration.stallLimit = newValue } }
    }
}

extension ThrottledBodyStream {
    /// The limit for the body alone; nil if the packets and the pauses name none. At least a byte a second passes, unless the
    /// pauses are endless.
    var rateLimit: RateLimit? {
        guard packetSize > 0, packetSize < .max, delay > 0 else { return nil }
        let rate = delay.isFinite ? min(max(1, Double(packetSize) / delay), 1e15) : 0
        return RateLimit(bytesPerSecond: Int64(rate))
    }
}
