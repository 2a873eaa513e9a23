import CEpoll
import Foundation

/// The events for which a file descriptor is watched, or that have occurred.
package struct FileEvents: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let readable = FileEvents(rawValue: 1)
    package static let writable = FileEvents(rawValue: 2)
    /// The peer hung up, or the descriptor has an error. This event is always reported, even if not requested.
    package static let failed = FileEvents(rawValue: 4)

    /// The events that may be reported for a descriptor that is watched for the events of this set; empty if this set
    /// is empty.
    var reported: FileEvents { isEmpty ? [] : union(.failed) }
}

/// The failure of a system call that the run loop needs.
package struct RunLoopError: Error, CustomStringConvertible {
    package let call: String
    package let number: Int32

    package var description: String { "\(call): \(String(cString: strerror(number)))" }
}

/// Waits for many file descriptors at once with Linux's `epoll(7)`, level-triggered as libcurl requires. Used by one
/// thread at a time.
final class Poller {
    /// The events for which a descriptor is watched.
    private struct Watch {
        var events: FileEvents = []
        /// A number that distinguishes the descriptor from earlier ones with the same number.
        var generation: UInt32 = 0
    }

    private let epoll: Int32
    private let ready: UnsafeMutableBufferPointer<epoll_event>
    /// The watches, indexed by descriptor.
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

    /// Watches a non-negative descriptor for exactly the given events; an empty set stops watching.
    func watch(_ descriptor: Int32, for events: FileEvents) throws {
        let index = Int(descriptor)
        if index >= watched.count {
            watched.append(contentsOf: repeatElement(Watch(), count: index + 1 - watched.count))
        }
        let isNew = watched[index].events.isEmpty
        watched[index].events = events
        guard !events.isEmpty else {
            // This fails harmlessly if the descriptor is already closed.
            _ = control(EPOLL_CTL_DEL, descriptor)
            return
        }
        if isNew { watched[index].generation &+= 1 }
        var failure = control(isNew ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor)
        if failure == ENOENT {
            // The descriptor was closed and its number reused: epoll no longer contains it, but `watched` does.
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

    /// Registers the watched events. Returns 0, or the error number.
    private func control(_ operation: Int32, _ descriptor: Int32) -> Int32 {
        let watch = watched[Int(descriptor)]
        var event = epoll_event()
        event.data.u64 = UInt64(watch.generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        event.events =
            (watch.events.contains(.readable) ? EPOLLIN.rawValue | EPOLLRDHUP.rawValue : 0)
            | (watch.events.contains(.writable) ? EPOLLOUT.rawValue : 0)
        return epoll_ctl(epoll, operation, descriptor, &event) == 0 ? 0 : errno
    }

    /// Waits until a descriptor is ready or the time has elapsed. It may also return early. In the meantime, another
    /// thread may call `watch(_:for:)`.
    ///
    /// - Parameter milliseconds: The maximum waiting time; 0 does not wait, a negative number waits forever.
    /// - Returns: The number of ready descriptors to report.
    func wait(milliseconds: Int32) -> Int {
        guard let events = ready.baseAddress else { return 0 }
        return max(0, Int(epoll_wait(epoll, events, Int32(ready.count), milliseconds)))
    }

    /// Whether any descriptor is ready. Can be read while another thread waits, which will find the same descriptors.
    var hasEvents: Bool {
        var event = epoll_event()
        return epoll_wait(epoll, &event, 1, 0) > 0
    }

    /// Reports the ready descriptors that the last wait has found.
    ///
    /// A report may change the watched descriptors and events. The same call then reports only events that are still
    /// watched, and none of an earlier descriptor whose number was reused.
    func report(_ count: Int, _ report: (Int32, FileEvents) -> Void) {
        for index in 0..<count {
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
