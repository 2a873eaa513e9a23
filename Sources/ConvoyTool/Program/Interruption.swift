import Foundation
import Synchronization

/// Handles Ctrl-C and the other signals that end a program: cancels what is under way, so that the program ends in
/// order, with nothing left behind. Then it ends by the signal itself: a shell that runs it in a loop ends the loop.
///
/// A second signal ends the program at once, and so does one that comes when there is nothing to cancel. Ctrl-Z stops
/// the program when the terminal has been given back.
final class Interruption: Sendable {
    static let shared = Interruption()

    /// What happens to the terminal. Called on a thread of its own; it must not wait for long.
    struct Terminal: Sendable {
        /// The program is stopped, or ends at once.
        var giveBack: @Sendable () -> Void
        /// It goes on after that.
        var takeAgain: @Sendable () -> Void
        /// It goes on after a stop that it did not hear of: somebody else may have used the terminal.
        var drawAnew: @Sendable () -> Void
    }

    private struct State {
        var status: ExitStatus?
        var cancel: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// How the program must end, once it was interrupted.
    var status: ExitStatus? { state.withLock { $0.status } }

    /// Takes over the signals. Called once, before there is any other thread: threads inherit what is blocked.
    func begin(_ terminal: Terminal) {
        // A closed pipe is an error where it is written to, not the end of the program in the middle of a file.
        signal(SIGPIPE, SIG_IGN)
        // Likewise a limit on the size of files.
        signal(SIGXFSZ, SIG_IGN)
        let numbers = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT].filter { !Self.isIgnored($0) }
        let watched = Self.set(numbers)
        Self.change(SIG_BLOCK, watched)
        Thread { [self] in
            var signals = watched
            var number: Int32 = 0
            while sigwait(&signals, &number) == 0 {
                switch number {
                case SIGTSTP: Self.stop(terminal)
                case SIGCONT: terminal.drawAnew()
                default:
                    if status != nil || state.withLock({ $0.cancel == nil }) {
                        terminal.giveBack()
                        Self.end(by: number)
                    }
                    trigger(.interrupted(signal: number))
                }
            }
        }.start()
    }

    /// Ends the work as a signal would.
    func trigger(_ status: ExitStatus) {
        let cancel = state.withLock { state in
            if state.status == nil { state.status = status }
            return state.cancel
        }
        cancel?()
    }

    /// Sets what an interruption cancels, at once if it has come already. Replaces what was set before.
    func onInterrupt(_ cancel: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            state.cancel = cancel
            return state.status != nil
        }
        if isOver { cancel() }
    }

    /// Ends the program by a signal, as if it had not been taken over.
    static func end(by number: Int32) -> Never {
        signal(number, SIG_DFL)
        change(SIG_UNBLOCK, set([number]))
        raise(number)
        // The first process of a container is not ended by its own signals.
        _exit(ExitStatus.interrupted(signal: number).rawValue)
    }

    /// Lets the signal of Ctrl-Z do what it does. Returns when the program goes on.
    private static func stop(_ terminal: Terminal) {
        terminal.giveBack()
        change(SIG_UNBLOCK, set([SIGTSTP]))
        raise(SIGTSTP)
        change(SIG_BLOCK, set([SIGTSTP]))
        // The signal that let it go on tells nothing new.
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
