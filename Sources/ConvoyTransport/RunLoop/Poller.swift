import Foundation

/// The events for which a file descriptor is watched, or that have occurred.
package struct FileEvents: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let readable = FileEvents(rawValue: 1)
    package static let writable = FileEvents(rawValue: 2)
    /// The other side hung up, or the descriptor has an error. Always reported, never asked for.
    package static let failed = FileEvents(rawValue: 4)

    /// The events that are reported for a descriptor that is watched for these; none if this is empty.
    var reported: FileEvents { isEmpty ? [] : union(.failed) }
}

/// The failure of a system call that the run loop needs.
package struct RunLoopError: Error, CustomStringConvertible {
    package let call: String
    package let number: Int32

    package var description: String { "\(call): \(String(cString: strerror(number)))" }
}

/// Waits for many file descriptors at once. One thread uses it.
package protocol Poller: AnyObject {
    /// Watches a non-negative descriptor for exactly these events; an empty set stops watching.
    func watch(_ descriptor: Int32, for events: FileEvents) throws

    /// Waits until a descriptor is ready or the time is over, and reports all that are ready. It may also return early.
    ///
    /// A report may change what is watched. The same call then reports only events that are still watched for, and none
    /// of an earlier descriptor whose number was reused.
    ///
    /// - Parameter milliseconds: the longest wait; 0 does not wait, a negative number waits forever.
    func wait(milliseconds: Int32, _ report: (_ descriptor: Int32, _ events: FileEvents) -> Void)
}

/// The kinds of poller that a run loop can be made with.
package enum PollerKind: Sendable, CaseIterable {
    /// `epoll(7)`: the cost of a wait depends on the number of ready descriptors, not of watched ones. Linux only.
    case epoll
    /// `poll(2)`, which is available everywhere.
    case poll

    /// The best kind on this system.
    package static var best: PollerKind {
        #if os(Linux)
        .epoll
        #else
        .poll
        #endif
    }

    func make() throws -> any Poller {
        switch self {
        case .poll: return PollPoller()
        case .epoll:
            #if os(Linux)
            return try EpollPoller()
            #else
            return PollPoller()
            #endif
        }
    }
}
