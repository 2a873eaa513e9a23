import Foundation

/// What a file descriptor is watched for, or has become ready for.
package struct FileEvents: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let readable = FileEvents(rawValue: 1)
    package static let writable = FileEvents(rawValue: 2)
    /// The other side hung up, or the descriptor is in error. Always reported, never asked for.
    package static let failed = FileEvents(rawValue: 4)

    /// What is reported of a descriptor that is watched for these: nothing if there are none.
    var reported: FileEvents { isEmpty ? [] : union(.failed) }
}

/// A system call that the run loop cannot do without refused.
package struct RunLoopError: Error, CustomStringConvertible {
    package let call: String
    package let number: Int32

    package var description: String { "\(call): \(String(cString: strerror(number)))" }
}

/// Waits for many file descriptors at once. One thread uses it.
package protocol Poller: AnyObject {
    /// Watches a descriptor, whose number is not negative, for exactly these events; none means: no longer.
    func watch(_ descriptor: Int32, for events: FileEvents) throws

    /// Waits until a descriptor is ready or the time is over, and reports each that is. It may also return early.
    ///
    /// A report may change what is watched. What it has changed is not reported any more in the same call, unless it
    /// is still watched for that; a descriptor that it has watched anew is not mistaken for the one of that number
    /// before.
    ///
    /// - Parameter milliseconds: how long at most; 0 does not wait, a negative number waits without end.
    func wait(milliseconds: Int32, _ report: (_ descriptor: Int32, _ events: FileEvents) -> Void)
}

/// The kinds of poller that a run loop can be made with.
package enum PollerKind: Sendable, CaseIterable {
    /// `epoll(7)`: the cost of a wait depends on what is ready, not on what is watched. Linux only.
    case epoll
    /// `poll(2)`: everywhere.
    case poll

    /// The best that this system has.
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
