import CCurl
import ConvoySupport

/// The limits on how many bytes a transfer moves in one turn of the run loop, so that a fast transfer does not delay
/// others.
///
/// libcurl reads a socket for as long as it is readable, a few received bytes can decode to a huge number, and a stored
/// response is available immediately. A transfer that has used up its share rests. It resumes at the end of the next
/// turn, after the loop has handled other events. Uploads need no share, because libcurl sends one buffer per call.
///
/// Used on the network thread only.
final class TurnShares {
    /// The number of bytes that a transfer may move in a turn, rounded up to whole reads or blocks.
    static let share = 128 << 10
    /// The number of bytes in a turn after which each transfer gets only a small share, and none is resumed.
    static let total = 512 << 10
    static let smallShare = 16 << 10

    /// The number of bytes that a transfer has moved in a turn.
    struct Use {
        fileprivate var turn: UInt32 = 0
        fileprivate var bytes: UInt32 = 0
    }

    private struct Rest {
        let transfer: any RestingTransfer
        let turn: UInt32
    }

    private let runLoop: NetworkRunLoop
    private var turn: UInt32 = 1
    private var bytes = 0
    /// The resting transfers, in the order in which they began to rest.
    private var resting = Backlog<Rest>()
    /// The next transfer, removed from `resting` but not resumed yet.
    private var next: Rest?
    /// A timer that prevents the run loop from sleeping while transfers rest.
    private let timer = RunLoopTimer {}

    init(runLoop: NetworkRunLoop) { self.runLoop = runLoop }

    /// Adds bytes to the use of a transfer. Returns whether its share is used up, so that it must pause until the next
    /// turn.
    func charge(_ count: Int, to use: inout Use) -> Bool {
        bytes += count
        if use.turn != turn { use = Use(turn: turn, bytes: 0) }
        use.bytes += UInt32(clamping: count)
        return use.bytes >= (bytes < Self.total ? Self.share : Self.smallShare)
    }

    /// Records that a transfer rests and must be resumed later.
    func noteRest(of transfer: any RestingTransfer) {
        resting.append(Rest(transfer: transfer, turn: turn))
        // This call may be the last of the turn, and nothing else may wake the loop.
        keepAwake()
    }

    /// Begins the next turn.
    func beginTurn() {
        turn &+= 1
        bytes = 0
    }

    /// Returns the next transfer to resume, at the beginning of a turn. Transfers that began to rest in this turn or
    /// the previous one continue to rest.
    func takeDue() -> (any RestingTransfer)? {
        while let rest = next ?? resting.popFirst() {
            guard turn &- rest.turn > 1, bytes < Self.total else {
                next = rest
                keepAwake()
                return nil
            }
            next = nil
            // The transfer may have ended.
            if rest.transfer.isResting { return rest.transfer }
        }
        return nil
    }

    private func keepAwake() {
        if !timer.isScheduled { runLoop.schedule(timer, at: NetworkRunLoop.now) }
    }

    func cancel() {
        resting = Backlog()
        next = nil
        runLoop.cancel(timer)
    }
}

/// A transfer that can rest for a turn of the run loop.
protocol RestingTransfer: AnyObject {
    /// Whether the transfer is resting and has been neither resumed nor ended.
    var isResting: Bool { get }

    /// Resumes the transfer. May call back.
    func endRest(in multi: MultiHandle)
}
