import Foundation

/// A poller on `poll(2)`, for systems without epoll. Its cost grows with the number of watched descriptors.
final class PollPoller: Poller {
    private struct Watch {
        var position: Int
        var events: FileEvents
        /// In which call of `wait` the watch was last changed. That call may report events from before the change.
        var call: Int
    }

    private var entries: [pollfd] = []
    private var watched: [Int32: Watch] = [:]
    private var calls = 0

    func watch(_ descriptor: Int32, for events: FileEvents) throws {
        if events.isEmpty {
            guard let position = watched.removeValue(forKey: descriptor)?.position else { return }
            let last = entries.removeLast()
            if position < entries.count {
                entries[position] = last
                watched[last.fd]?.position = position
            }
            return
        }
        let bits =
            (events.contains(.readable) ? Int16(POLLIN) : 0) | (events.contains(.writable) ? Int16(POLLOUT) : 0)
        let position = watched[descriptor]?.position ?? entries.count
        let entry = pollfd(fd: descriptor, events: bits, revents: 0)
        if position < entries.count { entries[position] = entry } else { entries.append(entry) }
        watched[descriptor] = Watch(position: position, events: events, call: calls)
    }

    func wait(milliseconds: Int32, _ report: (Int32, FileEvents) -> Void) {
        calls += 1
        guard poll(&entries, nfds_t(entries.count), milliseconds) > 0 else { return }
        // A report may change `entries`, so the ready ones are copied first.
        let ready = entries.filter { $0.revents != 0 }
        for entry in ready {
            // The number may have been reused since. If the new descriptor is ready, the next call will report it.
            guard let watch = watched[entry.fd], watch.call < calls else { continue }
            let bits = entry.revents
            var events: FileEvents = []
            if bits & Int16(POLLIN) != 0 { events.insert(.readable) }
            if bits & Int16(POLLOUT) != 0 { events.insert(.writable) }
            if bits & Int16(POLLERR | POLLHUP | POLLNVAL) != 0 { events.insert(.failed) }
            report(entry.fd, events.intersection(watch.events.reported))
        }
    }
}
