import ConvoySupport
import Foundation

/// A transfer that lacks a file descriptor for its connection.
protocol DescriptorWaiter: AnyObject {
    /// Called when there may be a descriptor.
    func tryAgainForDescriptor()
}

/// A queue of transfers for whose connections the system had no file descriptor left (`EMFILE`, `ENFILE`). They wait
/// for others to finish, where libcurl would let them fail.
///
/// Belongs to the network thread.
final class DescriptorQueue {
    private var waiting: [any DescriptorWaiter] = []
    private var timer: RunLoopTimer?
    private unowned let multi: MultiHandle

    /// How often to try again, besides after each end of a transfer: descriptors may be freed elsewhere. libcurl also
    /// closes idle connections, but checks for them at most once a second.
    private static let interval: MonotonicTime = 250_000_000
    /// How long a transfer waits if no other one on the thread could free its descriptor.
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

    /// Lets up to `count` waiting transfers try again.
    func goOn(with count: Int) {
        guard !waiting.isEmpty else { return }
        let next = Array(waiting.prefix(max(1, count)))
        waiting.removeFirst(next.count)
        if !waiting.isEmpty, let timer, !timer.isScheduled {
            multi.runLoop.schedule(timer, at: multi.runLoop.turnTime + Self.interval)
        }
        for waiter in next { waiter.tryAgainForDescriptor() }
    }

    /// Whether the system has no or hardly any descriptors left now: a connection may need several.
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

    /// Whether a transfer that has waited since a time may keep waiting.
    func mayWait(since: MonotonicTime) -> Bool {
        !multi.isIdle || multi.runLoop.turnTime < since + Self.patience
    }
}
