import Foundation

/// How many operations may start in a second.
///
/// What counts is each start of an operation that has a host: a request, when it first starts, when it starts again after
/// a pause, and when it is retried after a delay. (A redirect, an answer to a challenge and a request that is sent again
/// at once because nothing of it was sent are part of their start.) Blocks, batches and operations of other classes
/// are neither counted nor held back.
///
/// An operation that waits for its start waits as for a slot, and in the same order: a higher priority comes first, one
/// whose host may not start yet is passed over, and a cancelled one finishes at once.
extension RequestOperationQueue {
    /// How many operations with a host may start in a second, all hosts together; nil, the default, for any number.
    ///
    /// It can be changed at any time. A quicker rate also shortens the wait that is under way; a slower one counts from the
    /// next start.
    public final var maximumStartRate: StartRate? {
        get { state.withLock { $0.lanes.pacing.overall?.rate } }
        set { scheduler.changePace { $0.setStartRate(newValue, at: $1) } }
    }

    /// How many operations may start in a second for each host, by name and port; nil, the default, for any number.
    /// Otherwise as ``maximumStartRate``; both hold.
    public final var maximumStartRatePerHost: StartRate? {
        get { state.withLock { $0.lanes.pacing.perHost?.rate } }
        set { scheduler.changePace { $0.setStartRatePerHost(newValue, at: $1) } }
    }
}
