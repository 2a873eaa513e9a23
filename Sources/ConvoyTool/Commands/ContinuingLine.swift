import ConvoyOperations
import ConvoySupport
import Foundation

/// The command that goes on with an interrupted run.
enum ContinuingLine {
    /// What an interrupted run says last.
    static func sentence(_ options: Options) -> String {
        let text = text(options)
        return "to go on\(text.contains(Redaction.mask) ? ", with the secrets in place of \(Redaction.mask)" : ""): \(text)"
    }

    /// The command line of `get`, without passwords, and so that what is whole is not fetched again.
    static func text(_ options: Options) -> String {
        var words = ["convoy", "get"]
        let isOne = options.arguments.count == 1 && options.all("input-file").isEmpty
        if !isOne, !["continue", "no-clobber", "timestamping", "force"].contains(where: options.has) {
            words.append("--no-clobber")
        }
        for (option, value) in options.given {
            words.append(option.letter.map { "-\($0)" } ?? "--\(option.name)")
            if let value { words.append(shown(value, of: option)) }
        }
        if options.arguments.contains(where: { $0.hasPrefix("-") && $0 != "-" }) { words.append("--") }
        words += options.arguments.map { Redaction.url($0) }
        return Printable.line(words.map { ShellText.word($0) }.joined(separator: " "))
    }

    private static func shown(_ value: String, of option: ToolOption) -> String {
        switch option.name {
        case "user":
            // The user alone, whose password is asked for then. A lone colon stands for Kerberos.
            guard value != ":", let colon = value.firstIndex(of: ":") else { return value }
            return String(value[..<colon])
        case "header":
            guard let colon = value.firstIndex(of: ":") else { return value }
            let name = value[..<colon].trimmingCharacters(in: .whitespaces)
            let text = value[value.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            return "\(name): \(SecretClassifier(fields: Headers.secrets(among: [name])).shown(name, text))"
        default: return Redaction.text(value)
        }
    }
}
