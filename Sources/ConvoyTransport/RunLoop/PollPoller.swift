import Foundation

/// A poller on `poll(2)`, for systems without epoll. Its cost grows with the number of watched descriptors.
final class PollPoller: Poller {
    private var entries: [pollfd] = []
    private var positions: [Int32: Int] = [:]

    func watch(_ descriptor: Int32, for events: FileEvents) throws {
        if events.isEmpty {
            guard let position = positions.removeValue(forKey: descriptor) else { return }
            let last = entries.removeLast()
            if position < entries.count {
                entries[position] = last
                positions[last.fd] = position
            }
            return
        }
        let bits =
            (events.contains(.readable) ? Int16(POLLIN) : 0) | (events.contains(.writable) ? Int16(POLLOUT) : 0)
        if let position = positions[descriptor] {
            entries[position].events = bits
        } else {
            positions[descriptor] = entries.count
            entries.append(pollfd(fd: descriptor, events: bits, revents: 0))
        }
    }

    func wait(milliseconds: Int32, _ report: (Int32, FileEvents) -> Void) {
        guard poll(&entries, nfds_t(entries.count), milliseconds) > 0 else { return }
        // A report may change what is watched, so the ready ones are taken out first.
        let ready = entries.filter { $0.revents != 0 }
        for entry in ready {
            let bits = entry.revents
            var events: FileEvents = []
            if bits & Int16(POLLIN) != 0 { events.insert(.readable) }
            if bits & Int16(POLLOUT) != 0 { events.insert(.writable) }
            if bits & Int16(POLLERR | POLLHUP | POLLNVAL) != 0 { events.insert(.failed) }
            report(entry.fd, events)
        }
    }
}
