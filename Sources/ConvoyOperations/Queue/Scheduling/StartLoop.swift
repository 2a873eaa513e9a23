import Foundation

/// The queues that have something to start on the current thread.
///
/// An operation that starts in line and finishes at once makes others ready, which start in line and
/// finish at once… With calls inside calls a long chain would end the stack. So only the outermost
/// call starts operations; the calls inside it leave their queue here, and the outermost goes on.
final class StartLoop {
    private var isActive = false
    private var pending: [Scheduler] = []

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { loop in
            guard let loop: UnsafeMutableRawPointer = loop else { return }
            Unmanaged<StartLoop>.fromOpaque(loop).release()
        }
        return key
    }()

    private static var current: StartLoop {
        if let known = pthread_getspecific(key) {
            return Unmanaged<StartLoop>.fromOpaque(known).takeUnretainedValue()
        }
        let loop = StartLoop()
        pthread_setspecific(key, Unmanaged.passRetained(loop).toOpaque())
        return loop
    }

    /// Starts what `scheduler` has to start, now or as soon as the outer call on this thread goes on.
    static func run(_ scheduler: Scheduler) {
        let loop = current
        if loop.isActive {
            if !loop.pending.contains(where: { $0 === scheduler }) { loop.pending.append(scheduler) }
            return
        }
        loop.isActive = true
        while scheduler.startNext() {}
        while let next = loop.pending.popLast() {
            while next.startNext() {}
        }
        loop.isActive = false
    }
}
