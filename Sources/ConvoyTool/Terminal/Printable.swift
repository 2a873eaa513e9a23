import CEpoll
import Convoy
import ConvoyObjectStorage
import ConvoySupport
import ConvoyWorkflow
import Foundation
import FoundationNetworking

/// Functions that make untrusted text safe for a terminal, and measure it in columns.
///
/// A file name or an error message may come from a server. Unchanged, it could move the cursor, rename the window, or
/// reverse the direction of text.
enum Printable {
    /// Returns the text in single quotes, as one word of a shell command.
    static func shellQuoted(_ text: String) -> String { "'\(text.replacing("'", with: "'\\''"))'" }

    /// Returns the text on one line, with `?` for every character that controls the terminal.
    static func line(_ text: String) -> String {
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { safe.append(isObeyed(scalar) ? "?" : scalar) }
        return String(safe)
    }

    /// Returns whether a scalar controls a terminal: control characters, line separators, and characters that change the
    /// direction of text.
    static func isObeyed(_ scalar: Unicode.Scalar) -> Bool { scalar.controlsDisplay }

    /// Returns the width of the text in columns.
    static func width(_ text: String) -> Int { inTextLocale { text.reduce(0) { $0 + width($1) } } }

    /// Returns the text in ASCII, with `?` for each other character, for a terminal whose encoding is unknown.
    static func ascii(_ text: String) -> String {
        String(text.map { character in character.isASCII || character.utf8.allSatisfy { $0 < 0x80 } ? character : "?" })
    }

    /// Returns a name for the terminal, on one line, and in ASCII if the locale does not use UTF-8.
    static func name(_ text: String) -> String { Display.hasUnicode ? line(text) : ascii(line(text)) }

    /// Returns the text shortened to at most the given number of columns. It is cut in the middle, because names often
    /// differ at their ends, and the file extension is kept.
    static func cut(_ text: String, to columns: Int) -> String {
        inTextLocale { cut(Array(text), columns) }
    }

    private static func cut(_ characters: [Character], _ columns: Int) -> String {
        let widths = characters.map { width($0) }
        guard widths.reduce(0, +) > columns else { return String(characters) }
        guard columns > 2 else { return String(repeating: ".", count: max(0, columns)) }
        // One column is for the ellipsis.
        let room = columns - 1
        var (left, right) = (0, extensionStart(characters))
        var (usedLeft, usedRight) = (0, widths[right...].reduce(0, +))
        if usedRight * 2 > columns {
            right = characters.count
            usedRight = 0
        }
        // Characters are taken from both ends alternately, so that both get about as many columns.
        while left < right {
            let isLeft = usedLeft <= usedRight
            let next = isLeft ? widths[left] : widths[right - 1]
            guard usedLeft + usedRight + next <= room else { break }
            if isLeft {
                left = left + 1
                usedLeft = usedLeft + next
            } else {
                right = right - 1
                usedRight = usedRight + next
            }
        }
        return String(characters[..<left]) + (Display.hasUnicode ? "…" : "~") + String(characters[right...])
    }

    /// Returns the start of the file extension, including the one before it in ".tar.gz", or the end of the name
    /// without an extension.
    private static func extensionStart(_ characters: [Character]) -> Int {
        func isExtension(_ range: Range<Int>) -> Bool {
            (2...5).contains(range.count)
                && characters[range].dropFirst().allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
        }
        guard let dot = characters.lastIndex(of: "."), dot > 0, isExtension(dot..<characters.count) else {
            return characters.count
        }
        if dot >= 5, String(characters[(dot - 4)..<dot]) == ".tar" { return dot - 4 }
        return dot
    }

    /// Returns the width according to the C library, which follows Unicode and the behaviour of terminals. Must be called in
    /// ``inTextLocale(_:)``.
    private static func width(_ character: Character) -> Int {
        var isJoined = false
        return character.unicodeScalars.reduce(0) { columns, scalar in
            defer { isJoined = scalar == "\u{200D}" }
            // tmux draws characters after a zero-width joiner into the columns of the character before it.
            if isJoined { return columns }
            let width = wcwidth(wchar_t(scalar.value))
            // `wcwidth` returns -1 for an unassigned scalar.
            return columns + (width < 0 ? 1 : Int(width))
        }
    }

    /// Runs a closure in a UTF-8 locale, because in the program's locale, which may be "C", only ASCII may have a width. If
    /// the system has no such locale, a scalar of unknown width counts as one column.
    private static func inTextLocale<Result>(_ body: () -> Result) -> Result {
        guard let text = textLocale.value else { return body() }
        let before = uselocale(text)
        defer { uselocale(before) }
        return body()
    }

    /// A locale that is created once and never freed.
    private struct TextLocale: @unchecked Sendable { let value: locale_t? }
    private static let textLocale = TextLocale(value: newlocale(LC_CTYPE_MASK, "C.UTF-8", nil))
}

/// Functions that remove secrets, as classified by ``SecretClassifier``, from printed URLs, header fields and other
/// text, unless `--show-secrets` is given.
enum Shown {
    private static let showsAll = Locked(false)

    /// Whether secrets are printed unchanged.
    static var secrets: Bool {
        get { showsAll.withLock { $0 } }
        set { showsAll.withLock { $0 = newValue } }
    }

    /// Returns a URL for display. The string may be an invalid URL.
    static func url(_ text: String) -> String { secrets ? text : Redaction.url(text) }

    /// Returns a string for display, which may contain URLs.
    static func text(_ text: String) -> String { secrets ? text : Redaction.text(text) }

    /// Returns the value of a header field for display.
    static func value(_ name: String, _ value: String, _ classifier: SecretClassifier = .standard) -> String {
        secrets ? value : classifier.shown(name, value)
    }
}

/// The message of an error, on one line.
enum ErrorText {
    static func line(for error: any Error) -> String {
        if let error = error as? ToolError { return error.text }
        // The engine's messages name its API rather than options.
        let words = PlainWords.of(words(of: error)).replacing("its totalTimeout", with: "its limit (--max-time)")
        return Printable.line(Shown.text(words))
    }

    private static func words(of error: any Error) -> String {
        if let refusal = (error as? URLError)?.addressRefusal, let network = refusal.network {
            // The options `-4` and `-6` exclude these networks.
            if "\(network)" == "::/0" { return "The host has no IPv4 address (--ipv4)." }
            if "\(network)" == "0.0.0.0/0" { return "The host has no IPv6 address (--ipv6)." }
        }
        // The message is printed after the URL.
        if let error = error as? DownloadError {
            switch error.reason {
            case .changedType, .changedLength: return "\(error.sentence) To replace them, use --force."
            default: return error.sentence
            }
        }
        if let error = error as? UploadError { return error.sentence }
        // The codes of the library begin with a lowercase letter, and are not meant for people.
        if let error = error as? ObjectStorageError {
            let code = error.code.rawValue
            guard code.first?.isUppercase == true else { return error.message }
            return "\(error.message.hasSuffix(".") ? String(error.message.dropLast()) : error.message) (\(code))"
        }
        // Do not use the `localizedDescription` of a `URLError`. On Linux it is a generic sentence for each code.
        if let text = (error as? URLError)?.userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let text = (error as NSError).userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let error = error as? POSIXError { return SystemError(code: error.code.rawValue).text }
        // Foundation's errors have a description for users; other Swift errors have one for programmers only.
        if error is URLError || error is CocoaError || type(of: error) is NSError.Type {
            // On Linux, the description begins with an empty phrase.
            return error.localizedDescription.replacing("The operation could not be completed. ", with: "")
        }
        return String(describing: error)
    }
}

extension URL {
    /// The URL for display, without secrets and without characters that control a terminal.
    var forPeople: String { Printable.line(Shown.url(absoluteString)) }
}
