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
