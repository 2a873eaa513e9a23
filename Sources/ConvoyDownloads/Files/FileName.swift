import ConvoySupport

/// Safe file names, created from untrusted text, such as a name suggested by a server.
package enum FileName {
    /// The default maximum length of a name, in bytes of UTF-8. File systems allow 255; the rest is for the suffixes of
    /// neighboring files, such as that of a partial download.
    package static let maximumLength = 255 - 16

    /// Returns a name that stays in its directory, is visible, shows its type, and is valid on other systems; nil if no
    /// part of the text is usable.
    ///
    /// - Only the last component of a path is used; both `/` and `\` are separators.
    /// - Control characters, characters that change the direction of text, invisible ones, and `< > : " | ? *` become
    ///   `_`.
    /// - Whitespace and dots at both ends are removed. A name gets the prefix `_` if it began with a dot, a hyphen, a
    ///   tilde or a combining character, or if it is a Windows device name, such as `NUL.txt`.
    /// - The last dot becomes `_` if the suffix is reserved for the files beside an unfinished download.
    /// - A name that is too long is cut between characters, before its extension.
    ///
    /// A safe name is returned unchanged. Normalization is preserved.
    ///
    /// - Parameters:
    ///   - name: The text, which may be a path.
    ///   - maximumLength: The maximum length, in bytes of UTF-8; at least 100.
    package static func safe(_ name: String, maximumLength: Int = FileName.maximumLength) -> String? {
        // Work on Unicode scalars: a dot with a combining accent is one `Character`, but still hides the file.
        guard let component = name.unicodeScalars.split(whereSeparator: { "/\\".unicodeScalars.contains($0) }).last,
            component.contains(where: { !isReplaced($0) && !isTrimmed($0) })
        else { return nil }
        let clean = cleaned(component.map { isReplaced($0) ? "_" : $0 })
        return cleaned(Array(shortened(clean, to: max(maximumLength, 100)).unicodeScalars))
    }

    private static func cleaned(_ scalars: [Unicode.Scalar]) -> String {
        let start = scalars.prefix(while: isTrimmed)
        var name = scalars[start.endIndex...]
        while let last = name.last, isTrimmed(last) { name.removeLast() }
        guard let first = name.first else { return "_" }
        if let dot = reservedDot(in: name) { name[dot] = "_" }
        var clean = String.UnicodeScalarView()
        if first == "-" || first == "~" {
            name.removeFirst()
            clean.append("_")
        } else if start.contains(".") || isFloating(first) || isDevice(name) {
            clean.append("_")
        }
        clean.append(contentsOf: name)
        return String(clean)
    }

    // MARK: Scalars

    private static func isReplaced(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        // The following scalars are the soft hyphen, the Mongolian vowel separator, the zero-width space, word joiners,
        // and deprecated characters. The zero-width joiner and non-joiner remain, because emoji and the scripts of
        // India and Iran need them.
        case 0xAD, 0x180E, 0x200B, 0x2060...0x2065, 0x206A...0x206F: true
        default: scalar.controlsDisplay || "<>:\"|?*/\\".unicodeScalars.contains(scalar)
        }
    }

    private static func isTrimmed(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "." || scalar.properties.isWhitespace
    }

    /// Returns whether a scalar combines with the previous one or is invisible.
    package static func isFloating(_ scalar: Unicode.Scalar) -> Bool {
        let properties = scalar.properties
        return properties.isGraphemeExtend || properties.isDefaultIgnorableCodePoint
    }

    // MARK: Reserved names

    /// Returns the index of the last dot if the suffix is reserved for a file beside a download; otherwise nil. A name
    /// sent by a server must never match a file from which a later download resumes.
    ///
    /// Case and invisible characters are ignored, as some file systems do.
    package static func reservedDot(in name: ArraySlice<Unicode.Scalar>) -> Int? {
        guard let dot = name.lastIndex(of: ".") else { return nil }
        let suffix = String(String.UnicodeScalarView(name[dot...].filter { !$0.properties.isDefaultIgnorableCodePoint }))
        let isReserved = PartialPaths.suffixes.contains { $0.utf8.elementsEqual(suffix.utf8.map(ASCII.lowercased)) }
        return isReserved ? dot : nil
    }

    // MARK: Devices

    /// Returns whether Windows opens a device for the name, regardless of its extension.
    private static func isDevice(_ name: ArraySlice<Unicode.Scalar>) -> Bool {
        var stem = name.prefix { $0 != "." }
        while stem.last == " " { stem.removeLast() }
        guard stem.count <= 7 else { return false }
        return devices.contains(String(String.UnicodeScalarView(stem)).utf8.map(ASCII.lowercased))
    }

    private static let devices: Set<[UInt8]> = {
        let numbered = ["com", "lpt"].flatMap { name in "0123456789¹²³".map { "\(name)\($0)" } }
        return Set((["con", "prn", "aux", "nul", "conin$", "conout$"] + numbered).map { Array($0.utf8) })
    }()
}

/// Methods that shorten names.
extension FileName {
    /// Splits a name at the position where a number can be inserted, for example into "a" and ".txt", or "b" and
    /// ".tar.gz".
    package static func parts(of name: String) -> (stem: Substring, suffix: Substring) {
        let scalars = name.unicodeScalars
        guard let dot = scalars.lastIndex(of: "."), dot > scalars.startIndex else { return (name[...], "") }
        let stem = scalars[..<dot]
        let isArchive = stem.count > 4 && stem.suffix(4).elementsEqual(".tar".unicodeScalars)
        let cut = isArchive ? scalars.index(dot, offsetBy: -4) : dot
        return (Substring(scalars[..<cut]), Substring(scalars[cut...]))
    }

    /// Shortens the stem so that the name fits into the given number of bytes and the suffix still shows the type. A
    /// suffix of more than 32 bytes is also shortened.
    package static func shortened(_ name: String, to maximumLength: Int) -> String {
        guard name.utf8.count > maximumLength else { return name }
        let (stem, suffix) = parts(of: name)
        guard suffix.utf8.count <= 32 else { return prefix(name[...], maximumLength) }
        return prefix(stem, maximumLength - suffix.utf8.count) + suffix
    }

    /// Returns the longest prefix that fits. The prefix ends between two characters, unless the last character is very
    /// long, because a letter may have any number of accents.
    private static func prefix(_ text: Substring, _ limit: Int) -> String {
        var (used, end) = (0, text.unicodeScalars.startIndex)
        for index in text.unicodeScalars.indices {
            let length = text.unicodeScalars[index].utf8.count
            guard used + length <= limit else { break }
            used += length
            end = text.unicodeScalars.index(after: index)
        }
        let short = text.unicodeScalars[..<end]
        guard end < text.endIndex, let last = text.indices.last(where: { $0 < end }) else { return String(short) }
        let isCut = text.index(after: last) > end
        return isCut && text.utf8.distance(from: last, to: end) <= 64 ? String(text[..<last]) : String(short)
    }
}
