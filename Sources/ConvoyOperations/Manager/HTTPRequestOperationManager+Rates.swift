import ConvoyTransport
import Foundation

/// How fast and how slow the operations' transfers may be.
extension HTTPRequestOperationManager {
    /// A limit of how many bytes of responses come in a second, for all operations of the manager together; nil, the
    /// default, for none. The first of `connectionConfiguration.receiveRateLimits`.
    ///
    /// Setting it is for operations that are made later. The rate itself can be changed at any time, and counts at once.
    /// A copy of the manager has the same limit, and takes from it as well.
    public final var receiveRateLimit: RateLimit? {
        get { connectionConfiguration.receiveRateLimits.first }
        set { change { $0.configuration.receiveRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// A limit of how many bytes of requests' bodies are sent in a second, for all operations of the manager together;
    /// nil, the default, for none. The first of `connectionConfiguration.sendRateLimits`; otherwise as
    /// ``receiveRateLimit``.
    public final var sendRateLimit: RateLimit? {
        get { connectionConfiguration.sendRateLimits.first }
        set { change { $0.configuration.sendRateLimits = newValue.map { [$0] } ?? [] } }
    }

    /// How slow the operations' transfers may be, before they fail with `URLError.timedOut`; nil, the default, for no
    /// such limit.
    public final var stallLimit: StallLimit? {
        get { connectionConfiguration.stallLimit }
        set { change { $0.configuration.stallLimit = newValue } }
    }
}
