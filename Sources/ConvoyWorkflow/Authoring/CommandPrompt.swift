/// A reader for commands in the syntax of the Windows command prompt, as browsers copy them with "Copy as cURL (cmd)".
enum CommandPrompt {
    /// Returns whether a string has the escapes of the command prompt: a caret before a quote or at the end of a line.
    /// Within the quotes of a POSIX shell, a caret is an ordinary character.
    static func isUsed(in text: String) -> Bool {
        let text = Array(text)
        var quote: Character?, keepsBackslashes = false, isEscaped = false
        for (index, character) in text.enumerated() {
            let previous = index > 0 ? text[index - 1] : " "
            if isEscaped {
                isEscaped = false
            } else if character == "\\", quote == nil || !keepsBackslashes {
                isEscaped = true
            } else if let open = quote {
                if character == open { quote = nil }
            } else if character == "\"" || character == "'" {
                if character == "\"", previous == "^" { return true }
                quote = character
                keepsBackslashes = character == "'" && previous != "$"
            } else if character.isNewline, previous == "^", index > 1, text[index - 2] == " " {
                return true
            }
        }
        return false
    }

    /// Returns the words of a command. Carets are removed. Quotes are then interpreted as in the C library of Windows.
    static func words(_ text: String) throws(CurlCommandLine.Problem) -> [String] {
        var plain = "", rest = Array(text.replacing("\r\n", with: "\n"))[...]
        while let next = rest.popFirst() {
            guard next == "^" else {
                plain.append(next)
                continue
            }
            guard let escaped = rest.popFirst() else { break }
            if escaped != "\n" {
                plain.append(escaped)
            } else if rest.first == "\n" {
                // A line break after an escaped line break is literal.
                plain.append(rest.removeFirst())
            }
        }
        var words: [String] = [], word = "", hasWord = false, isQuoted = false
        rest = Array(plain)[...]
        while let next = rest.popFirst() {
            switch next {
            case "\\":
                var count = 1
                while rest.first == "\\" {
                    count += 1
                    rest.removeFirst()
                }
                let isBeforeQuote = rest.first == "\""
                word += String(repeating: "\\", count: isBeforeQuote ? count / 2 : count)
                if isBeforeQuote, count % 2 == 1 { word.append(rest.removeFirst()) }
                hasWord = true
            case "\"":
                hasWord = true
                if isQuoted, rest.first == "\"" {
                    word.append(rest.removeFirst())
                } else {
                    isQuoted.toggle()
                }
            case " ", "\t", "\n":
                guard !isQuoted else {
                    word.append(next)
                    continue
                }
                if hasWord { words.append(word) }
                word = ""
                hasWord = false
            default:
                word.append(next)
                hasWord = true
            }
        }
        guard !isQuoted else { throw CurlCommandLine.Problem(description: "A quote is not closed.") }
        return hasWord ? words + [word] : words
    }
}
