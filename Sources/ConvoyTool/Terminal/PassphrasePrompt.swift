import ConvoySupport
import Foundation

/// Asks for a passphrase or a password at the terminal, once, without showing it.
final class PassphrasePrompt: Sendable {
    private let question: String
    private let known = Locked<String?>(nil)

    /// - Parameter file: what the passphrase is for.
    convenience init(file: String) { self.init(question: "Passphrase for \(Printable.line(file)): ") }

    /// - Parameter question: what is printed before it.
    init(question: String) { self.question = question }

    /// The passphrase.
    ///
    /// - Throws: `ToolError` if there is no terminal.
    @Sendable func ask() throws -> String {
        if let text = known.withLock({ $0 }) { return text }
        let text = try read()
        known.withLock { $0 = text }
        return text
    }

    private func read() throws(ToolError) -> String {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else { throw .usage("there is no terminal to ask at") }
        defer { close(terminal) }
        guard SilentTerminal.begin(terminal, asking: question) else {
            throw .usage("the terminal cannot be made silent")
        }
        defer { SilentTerminal.end() }
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = Glibc.read(terminal, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1, byte != UInt8(ascii: "\n") else { break }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A terminal that does not show what is typed, from a question to its answer. Whatever ends or stops the program
/// meanwhile, the terminal is given back as it was.
enum SilentTerminal {
    private struct Session {
        let descriptor: Int32
        let question: String
        let before: termios
    }

    private static let session = Locked<Session?>(nil)

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
