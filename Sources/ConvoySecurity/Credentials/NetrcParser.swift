import ConvoySupport

/// Reads the words of a .netrc file, by the rules of curl's `lib/netrc.c`.
struct NetrcParser {
    private var rest: ArraySlice<UInt8>
    /// The line of the next byte, counted from 1.
    private var line = 1

    init(_ text: String) {
        let bytes = Array(text.utf8)
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        rest = bytes.starts(with: mark) ? bytes.dropFirst(mark.count) : bytes[...]
    }

    /// All entries, in their order. Words that mean nothing are skipped.
    mutating func entries() throws(NetrcError) -> [Netrc.Entry] {
        var entries: [Netrc.Entry] = []
        while let keyword = try word() {
            switch keyword.lowercased() {
            case "machine":
                guard let host = try word() else { break }
                entries.append(Netrc.Entry(host: ProtectionSpace.normalized(host: host)))
            case "default": entries.append(Netrc.Entry(host: nil))
            case "login":
                guard let login = try word(), let last = entries.indices.last else { break }
                entries[last].login = entries[last].login ?? login
            case "password":
                guard let password = try word(), let last = entries.indices.last else { break }
                entries[last].password = entries[last].password ?? password
            case "account": _ = try word()
            case "macdef": skipMacro()
            default: break
            }
        }
        return entries
    }

    /// The next word, without quotes and escapes; nil at the end.
    private mutating func word() throws(NetrcError) -> String? {
        while let byte = rest.first {
            if ASCII.isWhitespace(byte) {
                advance()
            } else if byte == UInt8(ascii: "#") {
                skipLine()
            } else if byte == UInt8(ascii: "\"") {
                return try quotedWord()
            } else {
                let word = rest.prefix { !ASCII.isWhitespace($0) }
                rest = rest[word.endIndex...]
                return String(decoding: word, as: UTF8.self)
            }
        }
        return nil
    }

    private mutating func quotedWord() throws(NetrcError) -> String {
        advance()
        var word: [UInt8] = []
        while let byte = rest.first, byte != UInt8(ascii: "\n") {
            advance()
            switch byte {
            case UInt8(ascii: "\""): return String(decoding: word, as: UTF8.self)
            case UInt8(ascii: "\\"):
                guard let escaped = rest.first, escaped != UInt8(ascii: "\n") else { break }
                advance()
                word.append(Self.unescaped(escaped))
            default: word.append(byte)
            }
        }
        throw .unterminatedQuote(line: line)
    }

    private static func unescaped(_ byte: UInt8) -> UInt8 {
        switch byte {
        case UInt8(ascii: "n"): UInt8(ascii: "\n")
        case UInt8(ascii: "r"): UInt8(ascii: "\r")
        case UInt8(ascii: "t"): UInt8(ascii: "\t")
        default: byte
        }
    }

    /// Skips a macro: the rest of its line, and all lines up to an empty one.
    private mutating func skipMacro() {
        repeat { skipLine() } while !rest.isEmpty && rest.first != UInt8(ascii: "\n") && rest.first != UInt8(ascii: "\r")
    }

    private mutating func skipLine() {
        while let byte = rest.first {
            advance()
            if byte == UInt8(ascii: "\n") { return }
        }
    }

    private mutating func advance() {
        if rest.popFirst() == UInt8(ascii: "\n") { line += 1 }
    }
}
