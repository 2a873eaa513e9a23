import ConvoySupport
import Foundation

/// A transfer that has no descriptor for its connection.
protocol DescriptorWaiter: AnyObject {
    /// There may be one now.
    func tryAgainForDescriptor()
}

/// Transfers for whose connections the system had no descriptor left (`EMFILE`, `ENFILE`), in the order in which they
/// came. They wait for others to finish; libcurl would let them fail.
///
/// Belongs to the network thread.
final class DescriptorQueue {
    private var waiting: [any DescriptorWaiter] = []
    private var timer: RunLoopTimer?
    private unowned let multi: MultiHandle

    /// How often to look, beside each time that a transfer ends: a descriptor may be given back elsewhere. Connections
    /// at rest are closed meanwhile, but libcurl looks for those not more than once a second.
    private static let interval: MonotonicTime = 250_000_000
    /// How long a transfer waits when no other runs on the thread that could give its descriptor back.
    private static let patience: MonotonicTime = 5_000_000_000

    init(multi: MultiHandle) { self.multi = multi }

    var isEmpty: Bool { waiting.isEmpty }

    func append(_ waiter: any DescriptorWaiter) {
        waiting.append(waiter)
        let timer =
            self.timer
            ?? RunLoopTimer { [unowned self] in
                goOn(with: 1)
            }
        self.timer = timer
        if !timer.isScheduled { multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval) }
    }

    func remove(_ waiter: any DescriptorWaiter) { waiting.removeAll { $0 === waiter } }

    func removeAll() {
        waiting = []
        if let timer { multi.runLoop.cancel(timer) }
    }

    /// Lets so many of the waiting try again.
    func goOn(with count: Int) {
        guard !waiting.isEmpty else { return }
        let next = Array(waiting.prefix(max(1, count)))
        waiting.removeFirst(next.count)
        if !waiting.isEmpty, let timer, !timer.isScheduled {
            multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval)
        }
        for waiter in next { waiter.tryAgainForDescriptor() }
    }

    /// Whether the system has no descriptor left at the moment, or hardly any: a connection may need several.
    static var isSystemShort: Bool {
        var taken: [Int32] = []
        defer { for descriptor in taken { close(descriptor) } }
        for _ in 0..<4 {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return Self.meansShortage(errno) }
            taken.append(descriptor)
        }
        return false
    }

    static func meansShortage(_ error: Int32) -> Bool {
        error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM
    }

    /// Whether a transfer that waits since then may wait on.
    func mayWait(since: MonotonicTime) -> Bool {
        !multi.isIdle || multi.runLoop.turnTime < since + Self.patience
    }
}
