import Foundation

/// Text for a POSIX shell (IEEE Std 1003.1, "Shell Command Language", section 2.2), each byte of which arrives unchanged.
package enum ShellText {
    /// A word of a command.
    ///
    /// Control characters, which a terminal would obey where the command is printed, are made by `printf`, inside of a
    /// command substitution. That removes line feeds at the end, so there must be none.
    package static func word(_ text: String) -> String {
        if !text.isEmpty, text.utf8.allSatisfy(isPlain) { return text }
        if text.unicodeScalars.contains(where: isControl) { return "\"$(\(printf(Data(text.utf8))))\"" }
        return "'\(text.replacing("'", with: #"'\''"#))'"
    }

    /// A command that writes the bytes.
    static func printf(_ bytes: Data) -> String {
        var format = ""
        format.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            // A format that begins with `-` would be an option.
            let isLiteral = isPlain(byte) && byte != UInt8(ascii: "%") && !(index == 0 && byte == UInt8(ascii: "-"))
            if isLiteral || byte == UInt8(ascii: " ") {
                format.unicodeScalars.append(Unicode.Scalar(byte))
            } else if byte == UInt8(ascii: "%") {
                format += "%%"
            } else {
                let digits = String(byte, radix: 8)
                format += "\\" + String(repeating: "0", count: 3 - digits.count) + digits
            }
        }
        return "printf '\(format)'"
    }

    /// Whether a text can be a word as it is, or between quotes, and be printed without harm.
    static func isText(_ bytes: Data) -> Bool {
        guard let text = String(validating: bytes, as: UTF8.self) else { return false }
        return !text.unicodeScalars.contains { isControl($0) && $0 != "\n" && $0 != "\t" }
    }

    /// Text between quotes, with its line feeds and tabs.
    static func quoted(_ text: String) -> String { "'\(text.replacing("'", with: #"'\''"#))'" }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "_-./:=,@+%".utf8.contains(byte)
        }
    }

    /// Control characters, and those that change the direction of text.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}
