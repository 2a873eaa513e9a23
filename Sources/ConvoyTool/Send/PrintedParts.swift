import Foundation

/// The parts of an exchange that `convoy send` prints: the letters of `--print`, which are those of HTTPie.
struct PrintedParts: OptionSet {
    let rawValue: Int

    static let requestHead = PrintedParts(rawValue: 1)
    static let requestBody = PrintedParts(rawValue: 2)
    static let head = PrintedParts(rawValue: 4)
    static let body = PrintedParts(rawValue: 8)

    private static let letters: [Character: PrintedParts] = ["H": requestHead, "B": requestBody, "h": head, "b": body]

    /// Returns the parts that the options select. The default is the body, and on a terminal also the head.
    static func selected(_ options: Options, isTerminal: Bool) throws(ToolError) -> PrintedParts {
        if options.has("head") { return head }
        guard let text = options.value("print") else { return isTerminal ? [head, body] : body }
        guard !options.has("capture") else { throw options.usage("--print cannot be combined with --capture") }
        var parts: PrintedParts = []
        for letter in text {
            guard let part = letters[letter] else {
                throw options.usage("--print takes the letters H, B, h and b, not '\(Printable.line(text))'")
            }
            parts.insert(part)
        }
        return parts
    }
}
