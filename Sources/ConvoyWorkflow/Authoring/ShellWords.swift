/// A parser that splits a string into the commands and words of a POSIX shell, including the `$'…'` of bash.
struct ShellWords {
    /// A simple command: its words, and the source of its standard input.
    struct Command {
        var words: [String] = []
        /// The file of a `<` redirection.
        var inputFile: String?
        /// The contents of `<<` or `<<<`.
        var inputText: String?
        /// Whether the standard input is the output of another command.
        var isPiped = false
        var notes: [String] = []

        var isEmpty: Bool { words.isEmpty && inputFile == nil && inputText == nil }
    }

    private var commands: [Command] = []

    private typealias Problem = CurlCommandLine.Problem

    private var rest: ArraySlice<UInt8>
    private var command = Command()
    private var word: [UInt8] = []
    private var hasWord = false, isQuoted = false
    /// The redirection to which the next word belongs; nil if the word is an argument.
    private var redirection: Redirection?
    private var documents: [(delimiter: [UInt8], isLiteral: Bool, stripsTabs: Bool)] = []

    private enum Redirection {
        case input, text, document(stripsTabs: Bool), output(shown: String?)
    }

    /// Returns the simple commands in a string. In the words, variables are represented by
    /// ``RequestDraft/reference(to:)``.
    static func split(_ text: String) throws(CurlCommandLine.Problem) -> [Command] {
        var words = ShellWords(rest: Array(text.replacing("\r\n", with: "\n").utf8.filter { $0 != 0 })[...])
        while let next = words.rest.popFirst() { try words.take(next) }
        try words.endWord()
        words.endCommand()
        return words.commands
    }

    private init(rest: ArraySlice<UInt8>) { self.rest = rest }

    private mutating func take(_ next: UInt8) throws(CurlCommandLine.Problem) {
        switch next {
        case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"): try endWord()
        case UInt8(ascii: "\n"): try endLine()
        // Skip a comment. In printed commands, comments list omitted parts.
        case UInt8(ascii: "#") where !hasWord: rest = rest.drop { $0 != UInt8(ascii: "\n") }
        case UInt8(ascii: "'"):
            begin(quoted: true)
            guard let end = rest.firstIndex(of: next) else { throw Problem(description: "A quote is not closed.") }
            word += rest[..<end]
            rest = rest[(end + 1)...]
        case UInt8(ascii: "\""): try takeDoubleQuoted()
        case UInt8(ascii: "$"): try takeDollar(quoted: false)
        case UInt8(ascii: "`"): throw Self.substitution
        case UInt8(ascii: "\\"):
            guard let escaped = rest.popFirst() else { break }
            if escaped == UInt8(ascii: "\n") { break }
            begin(quoted: true)
            word.append(escaped)
        case UInt8(ascii: "|"), UInt8(ascii: ";"), UInt8(ascii: "&"): try takeOperator(next)
        case UInt8(ascii: "<"), UInt8(ascii: ">"): try takeRedirection(next)
        case UInt8(ascii: "("), UInt8(ascii: ")"):
            throw Problem(description: "A subshell cannot be imported. Put an argument that has parentheses in quotes.")
        default:
            begin(quoted: false)
            word.append(next)
        }
    }

    private mutating func begin(quoted: Bool) {
        hasWord = true
        isQuoted = isQuoted || quoted
    }

    // MARK: Quotes and variables

    private mutating func takeDoubleQuoted() throws(CurlCommandLine.Problem) {
        begin(quoted: true)
        while let next = rest.popFirst() {
            switch next {
            case UInt8(ascii: "\""): return
            case UInt8(ascii: "$"): try takeDollar(quoted: true)
            case UInt8(ascii: "`"): throw Self.substitution
            case UInt8(ascii: "\\"):
                guard let escaped = rest.popFirst() else { break }
                if escaped == UInt8(ascii: "\n") { continue }
                if !"\"\\$`".utf8.contains(escaped) { word.append(next) }
                word.append(escaped)
            default: word.append(next)
            }
        }
        throw Problem(description: "A quote is not closed.")
    }

    private static let substitution = CurlCommandLine.Problem(
        description: "A command substitution cannot be imported. Replace it with its value or with a variable.")

    private mutating func takeDollar(quoted: Bool) throws(CurlCommandLine.Problem) {
        switch rest.first {
        case UInt8(ascii: "'") where !quoted:
            rest.removeFirst()
            begin(quoted: true)
            word += try ShellQuote.ansiC(&rest)
        // bash translates `$"…"`. Without a translation, the text is unchanged.
        case UInt8(ascii: "\"") where !quoted: break
        case UInt8(ascii: "("): throw Self.substitution
        case UInt8(ascii: "{"):
            guard let end = rest.firstIndex(of: UInt8(ascii: "}")) else {
                throw Problem(description: "A ${ is not closed.")
            }
            let name = String(decoding: rest[rest.startIndex..<end].dropFirst(), as: UTF8.self)
            rest = rest[(end + 1)...]
            guard Self.isName(name) else {
                throw Problem(description: "\"${\(name)}\" cannot be imported. Replace it with its value or with ${NAME}.")
            }
            refer(to: name)
        case let next?:
            let name = rest.prefix { Self.isNameByte($0) }
            if Self.isName(String(decoding: name, as: UTF8.self)) {
                rest = rest.dropFirst(name.count)
                refer(to: String(decoding: name, as: UTF8.self))
            } else if "0123456789@*#?!-$".utf8.contains(next), !(next == UInt8(ascii: "$") && quoted) {
                let shown = String(decoding: [UInt8(ascii: "$"), next], as: UTF8.self)
                throw Problem(description: "\"\(shown)\" is a parameter of the shell. Replace it with its value.")
            } else {
                begin(quoted: quoted)
                word.append(UInt8(ascii: "$"))
            }
        case nil:
            begin(quoted: quoted)
            word.append(UInt8(ascii: "$"))
        }
    }

    private mutating func refer(to name: String) {
        begin(quoted: true)
        word += RequestDraft.reference(to: name).utf8
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39, UInt8(ascii: "_"):
            true
        default: false
        }
    }

    static func isName(_ text: String) -> Bool {
        guard let first = text.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return text.utf8.allSatisfy(isNameByte)
    }

    // MARK: Operators

    private mutating func takeOperator(_ next: UInt8) throws(CurlCommandLine.Problem) {
        // `&>` and `2>&1` are redirections.
        if next == UInt8(ascii: "&"), rest.first == UInt8(ascii: ">") { return try endWord() }
        // An `&` that is not followed by a space probably belongs to an unquoted URL.
        if next == UInt8(ascii: "&"), hasWord, !isQuoted, rest.first.map(Self.isNameByte) == true {
            throw Problem(description: "An & ends a command. Put the URL in quotes.")
        }
        try endWord()
        let isPipe = next == UInt8(ascii: "|") && rest.first != next
        if next == rest.first || (isPipe && rest.first == UInt8(ascii: "&")) { rest.removeFirst() }
        endCommand()
        command.isPiped = isPipe
    }

    private mutating func takeRedirection(_ mark: UInt8) throws(CurlCommandLine.Problem) {
        var descriptor: [UInt8] = []
        if hasWord, !isQuoted, word.allSatisfy({ (0x30...0x39).contains($0) }) {
            descriptor = word
            word = []
            hasWord = false
        }
        try endWord()
        let more = rest.prefix { $0 == mark }.prefix(2)
        rest = rest.dropFirst(more.count)
        if mark == UInt8(ascii: ">") {
            if let next = rest.first, "&|".utf8.contains(next) {
                rest.removeFirst()
                let target = rest.prefix { (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
                rest = rest.dropFirst(target.count)
                if !target.isEmpty { return }
            }
            let isError = descriptor == [UInt8(ascii: "2")]
            redirection = .output(shown: isError ? nil : String(repeating: ">", count: more.count + 1))
            return
        }
        guard rest.first != UInt8(ascii: "(") else { throw Self.substitution }
        switch more.count {
        case 0: redirection = .input
        case 1:
            let strips = rest.first == UInt8(ascii: "-")
            if strips { rest.removeFirst() }
            redirection = .document(stripsTabs: strips)
        default: redirection = .text
        }
    }

    // MARK: Ends

    private mutating func endWord() throws(CurlCommandLine.Problem) {
        guard hasWord else { return }
        let bytes = word
        let (text, isUTF8) = ShellQuote.text(bytes)
        defer {
            word = []
            hasWord = false
            isQuoted = false
            redirection = nil
        }
        switch redirection {
        case nil:
            if !isUTF8 { command.notes.append("Bytes that are not UTF-8 are read as Latin-1, and sent as UTF-8.") }
            command.words.append(text)
        case .input?: command.inputFile = text
        case .text?: command.inputText = text + "\n"
        case .document(let strips)?: documents.append((bytes, isQuoted, strips))
        case .output(let shown)?:
            if let shown, text != "/dev/null" { command.notes.append("\(shown) \(text): left out; -o names an output file") }
        }
    }

    private mutating func endLine() throws(CurlCommandLine.Problem) {
        try endWord()
        for document in documents {
            let text = try self.document(document.delimiter, literal: document.isLiteral, document.stripsTabs)
            command.inputText = text
        }
        documents = []
        // Options on the next line belong to the command, even if the backslash before the line break is lost.
        let next = rest.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }.first
        if next != UInt8(ascii: "-") { endCommand() }
    }

    private mutating func document(
        _ delimiter: [UInt8], literal: Bool, _ stripsTabs: Bool
    ) throws(CurlCommandLine.Problem) -> String {
        var body: [UInt8] = []
        while !rest.isEmpty {
            var line = rest.prefix { $0 != UInt8(ascii: "\n") }
            rest = rest.dropFirst(line.count + 1)
            if stripsTabs { line = line.drop { $0 == UInt8(ascii: "\t") } }
            if line.elementsEqual(delimiter) { break }
            body += line + [UInt8(ascii: "\n")]
        }
        if literal { return ShellQuote.text(body).text }
        // In an unquoted document, only variables are replaced, and quotes are literal.
        var inner = ShellWords(rest: body[...])
        while let next = inner.rest.popFirst() {
            switch next {
            case UInt8(ascii: "$"): try inner.takeDollar(quoted: true)
            case UInt8(ascii: "`"): throw Self.substitution
            case UInt8(ascii: "\\") where inner.rest.first.map({ "\\$`".utf8.contains($0) }) == true:
                inner.word.append(inner.rest.removeFirst())
            case UInt8(ascii: "\\") where inner.rest.first == UInt8(ascii: "\n"): inner.rest.removeFirst()
            default: inner.word.append(next)
            }
        }
        return ShellQuote.text(inner.word).text
    }

    private mutating func endCommand() {
        if !command.isEmpty { commands.append(command) }
        command = Command()
    }
}
