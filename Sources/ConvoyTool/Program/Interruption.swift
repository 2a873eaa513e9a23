import Foundation
import Synchronization

/// Handles Ctrl-C and the other signals that end a program: cancels what is under way, so that the program ends in
/// order, with nothing left behind.
///
/// A second signal ends the program at once, and so does one that comes when there is nothing to cancel.
final class Interruption: Sendable {
    static let shared = Interruption()

    private struct State {
        var status: ExitStatus?
        var cancel: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// How the program must end, once it was interrupted.
    var status: ExitStatus? { state.withLock { $0.status } }

    /// Takes over the signals. Called once, before there is any other thread: threads inherit what is blocked.
    ///
    /// - Parameter cleanUp: runs before a second signal, or one with nothing to cancel, ends the program.
    func begin(beforeSuddenEnd cleanUp: @escaping @Sendable () -> Void) {
        // A closed pipe is an error where it is written to, not the end of the program in the middle of a file.
        signal(SIGPIPE, SIG_IGN)
        // Likewise a limit on the size of files.
        signal(SIGXFSZ, SIG_IGN)
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in [SIGINT, SIGTERM, SIGHUP] where !Self.isIgnored(number) { sigaddset(&signals, number) }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let watched = signals
        Thread { [self] in
            var signals = watched
            var number: Int32 = 0
            while sigwait(&signals, &number) == 0 {
                if status != nil || state.withLock({ $0.cancel == nil }) {
                    cleanUp()
                    _exit(128 + number)
                }
                trigger(.interrupted(signal: number))
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

    /// A signal that was ignored when the program was started, as by `nohup`, stays ignored.
    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard sigaction(number, nil, &action) == 0 else { return false }
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }
}
