import ConvoySupport
import Foundation

/// Asks for a passphrase at the terminal, once, without showing it.
final class PassphrasePrompt: Sendable {
    private let file: String
    private let known = Locked<String?>(nil)

    /// - Parameter file: what the passphrase is for.
    init(file: String) { self.file = file }

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
        var before = termios()
        guard tcgetattr(terminal, &before) == 0 else { throw .usage("there is no terminal to ask at") }
        var quiet = before
        // Ctrl-C arrives as a character, so that the terminal is restored before the program ends.
        quiet.c_lflag &= ~tcflag_t(ECHO | ISIG)
        guard tcsetattr(terminal, TCSAFLUSH, &quiet) == 0 else { throw .usage("the terminal cannot be made silent") }
        try? StandardStreams.write("Passphrase for \(Printable.line(file)): ", to: terminal)
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        var isInterrupted = false
        while Glibc.read(terminal, &byte, 1) == 1, byte != UInt8(ascii: "\n"), byte != UInt8(ascii: "\r") {
            if byte == 3 {
                isInterrupted = true
                break
            }
            bytes.append(byte)
        }
        tcsetattr(terminal, TCSAFLUSH, &before)
        try? StandardStreams.write("\n", to: terminal)
        if isInterrupted { ExitStatus.interrupted(signal: SIGINT).end() }
        return String(decoding: bytes, as: UTF8.self)
    }
}
