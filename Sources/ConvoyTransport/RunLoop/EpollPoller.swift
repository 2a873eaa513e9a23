#if os(Linux)
import CEpoll
import Foundation

/// A poller on Linux's `epoll(7)`, level-triggered as libcurl requires.
final class EpollPoller: Poller {
    /// What a descriptor is watched for.
    private struct Watch {
        var events: FileEvents = []
        /// Distinguishes the descriptor from earlier ones with the same number.
        var generation: UInt32 = 0
    }

    private let epoll: Int32
    private let ready: UnsafeMutableBufferPointer<epoll_event>
    /// Indexed by descriptor.
    @exclusivity(unchecked) private var watched: [Watch] = []

    init() throws {
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw RunLoopError(call: "epoll_create1", number: errno) }
        ready = .allocate(capacity: 256)
    }

    deinit {
        close(epoll)
        ready.deallocate()
    }

    func watch(_ descriptor: Int32, for events: FileEvents) throws {
        let index = Int(descriptor)
        if index >= watched.count {
            watched.append(contentsOf: repeatElement(Watch(), count: index + 1 - watched.count))
        }
        let isNew = watched[index].events.isEmpty
        watched[index].events = events
        guard !events.isEmpty else {
            // Fails harmlessly if the descriptor is already closed.
            _ = control(EPOLL_CTL_DEL, descriptor)
            return
        }
        if isNew { watched[index].generation &+= 1 }
        var failure = control(isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor)
        if failure == ENOENT {
            // The descriptor was closed and its number reused: epoll has forgotten it, but `watched` has not.
            watched[index].generation &+= 1
            failure = control(EPOLL_CTL_ADD, descriptor)
        } else if failure == EEXIST {
            failure = control(EPOLL_CTL_MOD, descriptor)
        }
        guard failure != 0 else { return }
        watched[index].events = []
        _ = control(EPOLL_CTL_DEL, descriptor)
        throw RunLoopError(call: "epoll_ctl", number: failure)
    }

    /// Registers what is watched. Returns 0, or the number of the error.
    private func control(_ operation: Int32, _ descriptor: Int32) -> Int32 {
        let watch = watched[Int(descriptor)]
        var event = epoll_event()
        event.data.u64 = UInt64(watch.generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        event.events =
            (watch.events.contains(.readable) ? EPOLLIN.rawValue | EPOLLRDHUP.rawValue : 0)
            | (watch.events.contains(.writable) ? EPOLLOUT.rawValue : 0)
        return epoll_ctl(epoll, operation, descriptor, &event) == 0 ? 0 : errno
    }

    func wait(milliseconds: Int32, _ report: (Int32, FileEvents) -> Void) {
        let count = epoll_wait(epoll, ready.baseAddress, Int32(ready.count), milliseconds)
        guard count > 0 else { return }
        for index in 0..<Int(count) {
            let event = ready[index]
            let descriptor = Int32(truncatingIfNeeded: event.data.u64)
            // An earlier report may have changed what is watched under this number.
            let watch = watched[Int(descriptor)]
            guard watch.generation == UInt32(truncatingIfNeeded: event.data.u64 >> 32) else { continue }
            let bits = event.events
            var events: FileEvents = []
            if bits & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0 { events.insert(.readable) }
            if bits & EPOLLOUT.rawValue != 0 { events.insert(.writable) }
            if bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { events.insert(.failed) }
            events.formIntersection(watch.events.reported)
            if !events.isEmpty { report(descriptor, events) }
        }
    }
}
#endif
