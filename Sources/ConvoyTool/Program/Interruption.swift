import CEpoll
import ConvoySupport
import Foundation

/// The handler for Ctrl-C and the other signals that end a program. It cancels the running transfers so that the
/// program can clean up, and then ends the program by the same signal, so that a shell loop around the program ends as
/// well.
///
/// A second signal ends the program immediately, as does the first signal if there is nothing to cancel. If the same
/// signal arrives twice in quick succession, it counts once, because `timeout` sends it to the program and to its
/// process group. Ctrl-Z stops the program after the terminal has been restored.
final class Interruption: Sendable {
    static let shared = Interruption()

    /// Closures that handle the terminal. They are called on a separate thread and must not block for long.
    struct Terminal: Sendable {
        /// A closure that is called before the program is stopped or ends immediately.
        var giveBack: @Sendable () -> Void
        /// A closure that is called when the stopped program continues.
        var takeAgain: @Sendable () -> Void
        /// A closure that is called when the program continues after a stop without notice. Another program may have
        /// used the terminal.
        var drawAnew: @Sendable () -> Void
        /// A closure that is called when the size of the window has changed.
        var resized: @Sendable () -> Void = {}
    }

    /// The time within which the same signal counts only once, in nanoseconds.
    private static let echoTime: MonotonicTime = 200_000_000

    /// The reaction to a signal.
    private struct Reaction {
        var status: ExitStatus?
        var cancel: (@Sendable () -> Void)?
        /// The action for a second signal, or nil to end the program.
        var again: (@Sendable () -> Void)?
    }

    private let reaction = Locked(Reaction())

    /// The status with which the program must end, or nil if it has not been interrupted.
    var status: ExitStatus? { reaction.withLock { $0.status } }

    /// Starts handling signals. Call this method once, before other threads exist, because they inherit the blocked
    /// signals.
    func begin(_ terminal: Terminal) {
        // Writing to a closed pipe must return an error instead of ending the program in the middle of a file.
        signal(SIGPIPE, SIG_IGN)
        // The same applies when the file size limit is exceeded.
        signal(SIGXFSZ, SIG_IGN)
        let numbers = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH].filter { !Self.isIgnored($0) }
        let watched = Self.set(numbers)
        Self.change(SIG_BLOCK, watched)
        Thread { [self] in
            var signals = watched
            var number: Int32 = 0
            var first: (number: Int32, time: MonotonicTime)?
            while sigwait(&signals, &number) == 0 {
                switch number {
                case SIGTSTP: Self.stop(terminal)
                case SIGCONT: terminal.drawAnew()
                case SIGWINCH: terminal.resized()
                default:
                    let now = MonotonicClock.now
                    if let first, first.number == number, now - first.time < Self.echoTime { continue }
                    first = first ?? (number, now)
                    if status != nil, let again = reaction.withLock({ $0.again.take() }) {
                        again()
                        continue
                    }
                    if status != nil || reaction.withLock({ $0.cancel == nil }) {
                        terminal.giveBack()
                        Self.end(by: number)
                    }
                    trigger(.interrupted(signal: number))
                }
            }
        }.start()
    }

    /// Cancels the running transfers, as a signal would.
    ///
    /// - Returns: Whether there was something to cancel.
    @discardableResult
    func trigger(_ status: ExitStatus) -> Bool {
        let cancel = reaction.withLock { reaction in
            if reaction.status == nil { reaction.status = status }
            return reaction.cancel
        }
        cancel?()
        return cancel != nil
    }

    /// Sets the closure to call on an interruption, replacing an earlier closure, and calls it immediately if an
    /// interruption has already occurred.
    ///
    /// - Parameter again: The closure for a second interruption, or nil to end the program. A third interruption always
    ///   ends it.
    func onInterrupt(_ cancel: @escaping @Sendable () -> Void, again: (@Sendable () -> Void)? = nil) {
        let isOver = reaction.withLock { reaction in
            reaction.cancel = cancel
            reaction.again = again
            return reaction.status != nil
        }
        if isOver { cancel() }
    }

    /// Ends the program by a signal with its default action.
    static func end(by number: Int32) -> Never {
        cepoll_write_profile()
        signal(number, SIG_DFL)
        change(SIG_UNBLOCK, set([number]))
        raise(number)
        // The first process of a container is not killed by its own signals.
        _exit(ExitStatus.interrupted(signal: number).rawValue)
    }

    /// Stops the program, as Ctrl-Z normally does. Returns when the program continues.
    private static func stop(_ terminal: Terminal) {
        terminal.giveBack()
        change(SIG_UNBLOCK, set([SIGTSTP]))
        raise(SIGTSTP)
        change(SIG_BLOCK, set([SIGTSTP]))
        // Discard the SIGCONT that continued the program, which needs no further handling.
        var expected = set([SIGCONT])
        var now = timespec()
        _ = sigtimedwait(&expected, nil, &now)
        terminal.takeAgain()
    }

    private static func set(_ numbers: [Int32]) -> sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in numbers { sigaddset(&signals, number) }
        return signals
    }

    private static func change(_ how: Int32, _ signals: sigset_t) {
        var signals = signals
        pthread_sigmask(how, &signals, nil)
    }

    /// Returns whether a signal was ignored at start, as with `nohup`. Such signals stay ignored.
    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }
}
