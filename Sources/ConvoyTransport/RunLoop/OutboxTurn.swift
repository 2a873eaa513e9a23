import Foundation

/// The queues to which a turn of a run loop has posted something, to be woken at the end of the turn.
///
/// Belongs to the run loop's thread.
final class OutboxTurn {
    @exclusivity(unchecked) private var lanes: [CompletionOutbox.Lane] = []

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// The turn of the calling thread; nil if that is not a run loop's thread.
    static var current: OutboxTurn? {
        pthread_getspecific(key).map { Unmanaged<OutboxTurn>.fromOpaque($0).takeUnretainedValue() }
    }

    func adoptThread() { pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque()) }

    /// From now on, posting from this thread wakes queues at once.
    func leaveThread() {
        flush()
        pthread_setspecific(Self.key, nil)
    }

    func note(_ lane: CompletionOutbox.Lane) {
        if lanes.last !== lane, !lanes.contains(where: { $0 === lane }) { lanes.append(lane) }
    }

    /// Wakes the queues. False if there were none.
    @discardableResult
    func flush() -> Bool {
        guard !lanes.isEmpty else { return false }
        for lane in lanes { CompletionOutbox.wake(lane) }
        lanes.removeAll(keepingCapacity: true)
        return true
    }
}
