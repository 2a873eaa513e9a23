import CCurl
import ConvoySupport

/// Bounds how many bytes a transfer receives in one turn of the run loop, so that a fast transfer does not delay others.
///
/// libcurl reads a socket for as long as it is readable. A transfer that has used its share is paused, and resumed at the
/// end of the next turn, after the loop has handled what became ready in the meantime.
///
/// Belongs to the network thread.
final class TurnShares {
    /// The number of bytes that a transfer may receive in a turn, rounded up to whole reads.
    static let share = 128 << 10
    /// The number of bytes in a turn from which on each transfer gets a small share only.
    static let total = 512 << 10
    static let smallShare = 16 << 10

    /// How many bytes a transfer has received in a turn.
    struct Use {
        fileprivate var turn: UInt32 = 0
        fileprivate var bytes = 0
    }

    private let runLoop: NetworkRunLoop
    private var turn: UInt32 = 1
    private var bytes = 0
    /// Transfers that were paused in this turn or the previous one.
    private var resting: [EasyHandle] = []
    /// Keeps the run loop from sleeping while transfers rest.
    private let timer = RunLoopTimer {}

    init(runLoop: NetworkRunLoop) { self.runLoop = runLoop }

    /// Counts received bytes, from within libcurl's callback.
    func charge(_ count: Int, to handle: EasyHandle) {
        bytes += count
        if handle.use.turn != turn { handle.use = Use(turn: turn, bytes: 0) }
        handle.use.bytes += count
        guard handle.use.bytes >= (bytes < Self.total ? Self.share : Self.smallShare) else { return }
        // A transfer that ends with this turn receives nothing more.
        guard !handle.isResting, !handle.endsAfterTurn, handle.rest() else { return }
        resting.append(handle)
        // The turn may be over but for this call, and nothing else may wake the loop.
        keepAwake()
    }

    /// Takes the transfers to resume, and begins another turn. Those that were paused in this turn stay paused.
    func endTurn() -> [EasyHandle] {
        defer {
            turn &+= 1
            bytes = 0
        }
        guard !resting.isEmpty else { return [] }
        let due = resting.filter { $0.isResting && $0.use.turn != turn }
        resting.removeAll { !$0.isResting || $0.use.turn != turn }
        if !resting.isEmpty { keepAwake() }
        return due
    }

    private func keepAwake() {
        if !timer.isScheduled { runLoop.schedule(timer, at: NetworkRunLoop.now) }
    }

    func cancel() {
        resting = []
        runLoop.cancel(timer)
    }
}
