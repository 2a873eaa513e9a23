import ConvoySupport
import Foundation

/// A prompt for a passphrase or password at the terminal, shown once, without echoing the input.
final class PassphrasePrompt: Sendable {
    private let question: String
    private let known = Locked<String?>(nil)

    /// - Parameter file: The file that the passphrase decrypts.
    convenience init(file: String) { self.init(question: "Passphrase for \(Printable.line(file)): ") }

    /// - Parameter question: The prompt.
    init(question: String) { self.question = question }

    /// Returns the passphrase. The first call prompts for it.
    ///
    /// - Throws: `ToolError` if the program has no terminal.
    @Sendable func ask() throws -> String {
        if let text = known.withLock({ $0 }) { return text }
        let text = try read()
        known.withLock { $0 = text }
        return text
    }

    private func read() throws(ToolError) -> String {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else { throw .usage("a terminal is required for the prompt") }
        defer { close(terminal) }
        guard SilentTerminal.begin(terminal, asking: question) else {
            throw .usage("the terminal cannot hide the input")
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

/// A terminal that does not echo input between a prompt and its answer. The terminal is restored even if the program is
/// ended or stopped in the meantime.
enum SilentTerminal {
    private struct Session {
        let descriptor: Int32
        let question: String
        let before: termios
    }

    private static let session = Locked<Session?>(nil)

    /// Prints a prompt and disables echo. Discards earlier input, which cannot be an answer.
    ///
    /// - Returns: Whether both steps succeeded.
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

    /// The closures with which signals restore the terminal and repeat the prompt.
    static let terminal = Interruption.Terminal(
        giveBack: { session.withLock { if let session = $0 { giveBack(session) } } },
        takeAgain: { session.withLock { if let session = $0 { _ = ask(session) } } },
        drawAnew: { session.withLock { if let session = $0 { _ = ask(session) } } })

    private static func ask(_ session: Session) -> Bool {
        var quiet = session.before
        // Only echo is disabled: line editing and Ctrl-C still work.
        quiet.c_lflag &= ~tcflag_t(ECHO)
        guard tcsetattr(session.descriptor, TCSAFLUSH, &quiet) == 0 else { return false }
        return (try? StandardStreams.write(session.question, to: session.descriptor)) != nil
    }

    private static func giveBack(_ session: Session) {
        var before = session.before
        tcflush(session.descriptor, TCIFLUSH)
        // TCSANOW does not wait for pending output. A terminal may be paused, and signal handling must not wait until
        // it resumes.
        tcsetattr(session.descriptor, TCSANOW, &before)
        // Print a line break, because the one that the user typed was not echoed.
        if StandardStreams.hasRoom(session.descriptor) { try? StandardStreams.write("\n", to: session.descriptor) }
    }
}

extension Interruption.Terminal {
    /// Combines the closures with those of another value.
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
