import ConvoyOperations
import ConvoySupport
import Foundation

/// The command that goes on with an interrupted run.
enum ContinuingLine {
    /// The command line of `get`, without passwords, and so that what is whole is not fetched again.
    static func text(_ arguments: [String], _ options: Options) -> String {
        var words = ["convoy", "get"]
        let isOne = options.arguments.count == 1 && options.all("input-file").isEmpty
        if !isOne, !["no-clobber", "timestamping", "force"].contains(where: options.has) { words.append("--no-clobber") }
        var isUser = false
        for argument in arguments {
            var word = argument
            if isUser {
                word = withoutPassword(word)
            } else if word.hasPrefix("--user=") {
                word = "--user=" + withoutPassword(String(word.dropFirst(7)))
            } else if word.hasPrefix("-u"), word != "-u" {
                word = "-u" + withoutPassword(String(word.dropFirst(2)))
            }
            isUser = argument == "-u" || argument == "--user"
            words.append(ShellText.word(Printable.line(Redaction.text(word))))
        }
        return words.joined(separator: " ")
    }

    /// The user alone, whose password is asked for then. A lone colon stands for Kerberos.
    private static func withoutPassword(_ user: String) -> String {
        guard user != ":", let colon = user.firstIndex(of: ":") else { return user }
        return String(user[..<colon])
    }
}
