import ConvoySupport
import Foundation
import Synchronization

/// A terminal that does not show what is typed, from a question to its answer. Whatever ends or stops the program
/// meanwhile, the terminal is given back as it was.
enum SilentTerminal {
    private struct Session {
        let descriptor: Int32
        let question: String
        let before: termios
    }

    private static let session = Mutex<Session?>(nil)

    /// Asks a question, and makes the terminal silent. What was typed before is dropped: it was no answer.
    ///
    /// - Returns: whether that was possible.
    static func begin(_ descriptor: Int32, asking question: String) -> Bool {
        var before = termios()
        guard tcgetattr(descriptor, &before) == 0 else { return false }
        let new = Session(descriptor: descriptor, question: question, before: before)
        return session.withLock { session in
            session = new
            guard ask(new) else {
                session = nil
                return false
            }
            return true
        }
    }

    /// Restores the terminal.
    static func end() {
        session.withLock { session in
            if let session { giveBack(session) }
            session = nil
        }
    }

    /// How signals restore the terminal, and ask again.
    static let terminal = Interruption.Terminal(
        giveBack: { session.withLock { if let session = $0 { giveBack(session) } } },
        takeAgain: { session.withLock { if let session = $0 { _ = ask(session) } } },
        drawAnew: { session.withLock { if let session = $0 { _ = ask(session) } } })

    private static func ask(_ session: Session) -> Bool {
        var quiet = session.before
        // Lines are still edited by the terminal, and Ctrl-C is still a signal.
        quiet.c_lflag &= ~tcflag_t(ECHO)
        guard tcsetattr(session.descriptor, TCSAFLUSH, &quiet) == 0 else { return false }
        return (try? StandardStreams.write(session.question, to: session.descriptor)) != nil
    }

    private static func giveBack(_ session: Session) {
        var before = session.before
        tcflush(session.descriptor, TCIFLUSH)
        // Without waiting for its output: a terminal may be paused, and a signal must not wait for that.
        tcsetattr(session.descriptor, TCSANOW, &before)
        // The end of the line was not shown either.
        if StandardStreams.hasRoom(session.descriptor) { try? StandardStreams.write("\n", to: session.descriptor) }
    }
}

extension Interruption.Terminal {
    /// This one, and another.
    func and(_ other: Self) -> Self {
        let own = self
        return Self(
            giveBack: {
                own.giveBack()
                other.giveBack()
            },
            takeAgain: {
                own.takeAgain()
                other.takeAgain()
            },
            drawAnew: {
                own.drawAnew()
                other.drawAnew()
            },
            resized: {
                own.resized()
                other.resized()
            })
    }
}
