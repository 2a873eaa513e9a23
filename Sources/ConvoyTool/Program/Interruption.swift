import CEpoll
import ConvoySupport
import Foundation

/// Handles Ctrl-C and the other signals that end a program: cancels the running transfers, so that the program can
/// clean up. Then it ends by the signal itself, so that a shell that runs it in a loop ends the loop.
///
/// A second signal ends the program at once, as does one that comes when there is nothing to cancel. The same signal at
/// once after the first counts as one: `timeout` sends each twice, to the program and to its group. Ctrl-Z stops the program
/// after the terminal has been restored.
final class Interruption: Sendable {
    static let shared = Interruption()

    /// The handling of the terminal. Called on a separate thread; it must not block for long.
    struct Terminal: Sendable {
        /// Called before the program is stopped, or ends at once.
        var giveBack: @Sendable () -> Void
        /// Called when the program continues after that.
        var takeAgain: @Sendable () -> Void
        /// Called when the program continues after a stop without notice: another program may have used the terminal.
        var drawAnew: @Sendable () -> Void
        /// Called when the window has another size.
        var resized: @Sendable () -> Void = {}
    }

    /// In nanoseconds.
    private static let echoTime: MonotonicTime = 200_000_000

    private struct State {
        var status: ExitStatus?
        var cancel: (@Sendable () -> Void)?
        /// What a second signal does; nil to end the program.
        var again: (@Sendable () -> Void)?
    }

    private let state = Locked(State())

    /// How the program must end; nil unless it was interrupted.
    var status: ExitStatus? { state.withLock { $0.status } }

    /// Takes over the signals. Called once, before there are other threads, which inherit the blocked signals.
    func begin(_ terminal: Terminal) {
        // Writing to a closed pipe must give an error, not end the program in the middle of a file.
        signal(SIGPIPE, SIG_IGN)
        // The same for exceeding the limit on the size of files.
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
                    if status != nil, let again = state.withLock({ $0.again.take() }) {
                        again()
                        continue
                    }
                    if status != nil || state.withLock({ $0.cancel == nil }) {
                        terminal.giveBack()
                        Self.end(by: number)
                    }
                    trigger(.interrupted(signal: number))
                }
            }
        }.start()
    }

    /// Cancels the running transfers as a signal would.
    func trigger(_ status: ExitStatus) {
        let cancel = state.withLock { state in
            if state.status == nil { state.status = status }
            return state.cancel
        }
        cancel?()
    }

    /// Sets the closure that an interruption calls, and calls it at once if there was one already. Replaces an earlier
    /// closure.
    ///
    /// - Parameter again: what a second interruption calls; a third one ends the program. Nil lets the second one end it.
    func onInterrupt(_ cancel: @escaping @Sendable () -> Void, again: (@Sendable () -> Void)? = nil) {
        let isOver = state.withLock { state in
            (state.cancel, state.again) = (cancel, again)
            return state.status != nil
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
        // Discards the SIGCONT that continued the program, which needs no further handling.
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

    /// A signal that was ignored when the program was started, as by `nohup`, stays ignored.
    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }
}
