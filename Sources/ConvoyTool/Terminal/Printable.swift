import CEpoll
import Convoy
import ConvoySupport
import Foundation
import FoundationNetworking

/// Makes untrusted text safe for a terminal, and measures it in columns.
///
/// A file name or an error text may come from a server. Unchanged, it could move the cursor, rename the window, or
/// reverse the direction of text.
enum Printable {
    /// The text on one line, with `?` for every character that would control the terminal.
    static func line(_ text: String) -> String {
        var safe = String.UnicodeScalarView()
        for scalar in text.unicodeScalars { safe.append(isObeyed(scalar) ? "?" : scalar) }
        return String(safe)
    }

    /// Whether a scalar controls a terminal: control characters, line separators, and characters that change the
    /// direction of text.
    static func isObeyed(_ scalar: Unicode.Scalar) -> Bool { scalar.controlsDisplay }

    /// The width of the text in columns.
    static func width(_ text: String) -> Int { inTextLocale { text.reduce(0) { $0 + width($1) } } }

    /// The text in ASCII, with `?` for each other character: for a terminal whose encoding is unknown.
    static func ascii(_ text: String) -> String {
        String(text.map { character in character.isASCII || character.utf8.allSatisfy { $0 < 0x80 } ? character : "?" })
    }

    /// A name for a terminal: on one line, and in ASCII where there is nothing else.
    static func name(_ text: String) -> String { Display.hasUnicode ? line(text) : ascii(line(text)) }

    /// The text in at most this many columns. If it is too long, it is cut in the middle, as names often differ at their
    /// ends, and a file's extension is kept.
    static func cut(_ text: String, to columns: Int) -> String {
        inTextLocale { cut(Array(text), columns) }
    }

    private static func cut(_ characters: [Character], _ columns: Int) -> String {
        let widths = characters.map { width($0) }
        guard widths.reduce(0, +) > columns else { return String(characters) }
        guard columns > 2 else { return String(repeating: ".", count: max(0, columns)) }
        // One column is for the mark.
        let room = columns - 1
        var (left, right) = (0, extensionStart(characters))
        var (usedLeft, usedRight) = (0, widths[right...].reduce(0, +))
        if usedRight * 2 > columns { (right, usedRight) = (characters.count, 0) }
        // Takes characters from both ends, so that both get about as many columns.
        while left < right {
            let isLeft = usedLeft <= usedRight
            let next = isLeft ? widths[left] : widths[right - 1]
            guard usedLeft + usedRight + next <= room else { break }
            if isLeft {
                (left, usedLeft) = (left + 1, usedLeft + next)
            } else {
                (right, usedRight) = (right - 1, usedRight + next)
            }
        }
        return String(characters[..<left]) + (Display.hasUnicode ? "…" : "~") + String(characters[right...])
    }

    /// Where the extension begins, with the one before it in ".tar.gz"; the end if there is none.
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

    /// The width by the C library, which follows Unicode and the behaviour of terminals. To be called in
    /// ``inTextLocale(_:)``.
    private static func width(_ character: Character) -> Int {
        var isJoined = false
        return character.unicodeScalars.reduce(0) { columns, scalar in
            defer { isJoined = scalar == "\u{200D}" }
            // tmux draws what follows a zero-width joiner into the columns of what is before it.
            if isJoined { return columns }
            let width = wcwidth(wchar_t(scalar.value))
            // -1 means an unassigned scalar.
            return columns + (width < 0 ? 1 : Int(width))
        }
    }

    /// Runs a closure in a UTF-8 locale, as in the program's locale, which may be "C", only ASCII may have a width. If
    /// the system has no such locale, widths may be wrong: a scalar of unknown width counts as one column.
    private static func inTextLocale<Result>(_ body: () -> Result) -> Result {
        guard let text = textLocale.value else { return body() }
        let before = uselocale(text)
        defer { uselocale(before) }
        return body()
    }

    /// Made once, and never freed.
    private struct TextLocale: @unchecked Sendable { let value: locale_t? }
    private static let textLocale = TextLocale(value: newlocale(LC_CTYPE_MASK, "C.UTF-8", nil))
}

/// What is printed of URLs, header fields and texts: without what ``SecretClassifier`` takes for a secret, unless
/// `--show-secrets` is given.
enum Shown {
    private static let showsAll = Locked(false)

    /// Whether secrets are printed as they are.
    static var secrets: Bool {
        get { showsAll.withLock { $0 } }
        set { showsAll.withLock { $0 = newValue } }
    }

    /// A URL, or what was meant to be one, as it was given.
    static func url(_ text: String) -> String { secrets ? text : Redaction.url(text) }

    /// A text with URLs in it.
    static func text(_ text: String) -> String { secrets ? text : Redaction.text(text) }

    /// The value of a header field.
    static func value(_ name: String, _ value: String, _ classifier: SecretClassifier = .standard) -> String {
        secrets ? value : classifier.shown(name, value)
    }
}

/// The message of an error, on one line.
enum ErrorText {
    static func line(for error: any Error) -> String {
        if let error = error as? ToolError { return error.text }
        // The engine's words are for programs, which have no option of this name.
        let words = words(of: error).replacing("(totalTimeout)", with: "(--max-time)")
        return Printable.line(Shown.text(words))
    }

    private static func words(of error: any Error) -> String {
        if let refusal = (error as? URLError)?.addressRefusal, let network = refusal.network {
            // What -4 and -6 refuse is all of the other family.
            if "\(network)" == "::/0" { return "There is no address of IPv4 to connect to (--ipv4)." }
            if "\(network)" == "0.0.0.0/0" { return "There is no address of IPv6 to connect to (--ipv6)." }
        }
        // The URL stands before it.
        if let error = error as? DownloadError {
            switch error.reason {
            case .changedType, .changedLength: return "\(error.sentence) To replace them, use --force."
            default: return error.sentence
            }
        }
        if let error = error as? UploadError { return error.sentence }
        // `localizedDescription` of a `URLError` is not used: on Linux it has only a generic sentence for each code.
        if let text = (error as? URLError)?.userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let text = (error as NSError).userInfo[NSLocalizedDescriptionKey] as? String { return text }
        if let error = error as? POSIXError { return SystemError(code: error.code.rawValue).text }
        // Foundation's errors have a description for users; Swift errors only one for programmers.
        if error is URLError || error is CocoaError || type(of: error) is NSError.Type {
            // On Linux it begins with an empty phrase.
            return error.localizedDescription.replacing("The operation could not be completed. ", with: "")
        }
        return String(describing: error)
    }
}

extension URL {
    /// The URL for display: without the password, and without characters that control a terminal.
    var forPeople: String { Printable.line(Shown.url(absoluteString)) }
}
