#if os(Linux)
    import CEpoll
    import Foundation

    /// A poller on Linux's `epoll(7)`, level-triggered as libcurl expects it.
    final class EpollPoller: Poller {
        private let epoll: Int32
        private let ready: UnsafeMutableBufferPointer<epoll_event>
        /// What each descriptor is watched for, by its number, so that a change is told from an addition.
        private var watched: [FileEvents] = []

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
                watched.append(contentsOf: repeatElement([], count: index + 1 - watched.count))
            }
            var event = epoll_event()
            event.data.fd = descriptor
            event.events =
                (events.contains(.readable) ? EPOLLIN.rawValue | EPOLLRDHUP.rawValue : 0)
                | (events.contains(.writable) ? EPOLLOUT.rawValue : 0)
            var operation = watched[index].isEmpty ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
            if events.isEmpty { operation = EPOLL_CTL_DEL }
            var result = epoll_ctl(epoll, operation, descriptor, &event)
            if result != 0, operation == EPOLL_CTL_MOD, errno == ENOENT {
                // The descriptor was closed and its number given out again: epoll forgot it, we did not.
                result = epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)
            } else if result != 0, operation == EPOLL_CTL_ADD, errno == EEXIST {
                result = epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event)
            } else if operation == EPOLL_CTL_DEL {
                result = 0  // closed already: nothing to forget
            }
            let failure = errno
            watched[index] = events
            if result != 0 { throw RunLoopError(call: "epoll_ctl", number: failure) }
        }

        func wait(milliseconds: Int32, _ report: (Int32, FileEvents) -> Void) {
            let count = epoll_wait(epoll, ready.baseAddress, Int32(ready.count), milliseconds)
            guard count > 0 else { return }
            for index in 0..<Int(count) {
                let event = ready[index]
                let bits = event.events
                var events: FileEvents = []
                if bits & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0 { events.insert(.readable) }
                if bits & EPOLLOUT.rawValue != 0 { events.insert(.writable) }
                if bits & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 { events.insert(.failed) }
                report(event.data.fd, events)
            }
        }
    }
#endif
