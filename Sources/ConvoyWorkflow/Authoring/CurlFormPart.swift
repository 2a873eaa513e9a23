import ConvoySerialization

/// A reader for the parts of `curl -F`: `name=text;type=…`, `name=@file;filename=…`, `name=<file`.
enum CurlFormPart {
    /// Returns the part, and notes about attributes that a manifest cannot express.
    static func part(_ text: String) throws(CurlCommandLine.Problem) -> (part: RequestDraft.Part?, notes: [String]) {
        guard let equals = text.firstIndex(of: "=") else {
            throw CurlCommandLine.Problem(description: "The part \"\(text.prefix(40))\" has no equals sign.")
        }
        let name = String(text[..<equals])
        var rest = text[text.index(after: equals)...]
        let mark = rest.first
        let isFile = mark == "@"
        if isFile { rest.removeFirst() }
        // The value may be a password, so notes contain only the name.
        let shown = "-F \(name)"
        if mark == "<" { return (nil, ["\(shown): left out; give the text of the file as a value"]) }
        var notes: [String] = []
        // A value that contains a semicolon or a comma may be quoted.
        let content = field(&rest, stops: isFile ? ";," : ";")
        if isFile, content == "-" { return (nil, ["\(shown): left out; put standard input into a file"]) }
        if rest.first == "," { notes.append("\(shown): only the first of several files of a part is sent") }
        rest = rest.drop { $0 != ";" }
        var part = RequestDraft.Part(name: name, value: content, isFile: isFile)
        while rest.first == ";" {
            rest = rest.dropFirst().drop { $0 == " " }
            let key = rest.prefix { $0 != "=" && $0 != ";" }
            rest = rest.dropFirst(key.count)
            guard rest.first == "=" else {
                // This parameter has no value. `charset` in `type=text/plain;charset=utf-8` is handled below.
                if !key.isEmpty { notes.append("\(shown): ;\(key) is left out") }
                continue
            }
            rest.removeFirst()
            let value = field(&rest, stops: ";")
            switch key.lowercased() {
            case "type": part.type = value
            case "filename": part.fileName = value
            case "charset" where part.type != nil: part.type? += ";charset=\(value)"
            default: notes.append("\(shown): \(key) is left out")
            }
        }
        if part.type == nil, part.isFile || part.fileName != nil { addType(to: &part, &notes) }
        return (part, notes)
    }

    /// Sets the media type that curl sends, if a manifest would send a different one.
    private static func addType(to part: inout RequestDraft.Part, _ notes: inout [String]) {
        func fileExtension(_ path: String) -> String {
            (path.split(separator: "/" as Character).last.map(String.init) ?? "" as String).split(
                separator: "." as Character
            )
            .dropFirst().last.map { $0.lowercased() } ?? ""
        }
        let known = types[fileExtension(part.fileName ?? "")] ?? (part.isFile ? types[fileExtension(part.value)] : nil)
        guard part.isFile else {
            if known == nil { notes.append("-F \(part.name): sent as text/plain, and by curl without a type") }
            if let known, known != "text/plain" { part.type = known }
            return
        }
        let type = known ?? "application/octet-stream"
        if MIMEType.type(forPathExtension: fileExtension(part.value)) != type { part.type = type }
    }

    /// The media types that curl derives from file extensions.
    private static let types = [
        "gif": "image/gif", "jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "svg": "image/svg+xml",
        "txt": "text/plain", "htm": "text/html", "html": "text/html", "pdf": "application/pdf", "xml": "application/xml",
    ]

    /// Reads a value up to a character of `stops`, or a value in double quotes, with escaped quotes and backslashes.
    private static func field(_ rest: inout Substring, stops: String) -> String {
        guard rest.first == "\"", let end = closing(rest) else {
            let value = rest.prefix { !stops.contains($0) }
            rest = rest.dropFirst(value.count)
            return String(value)
        }
        var value = "", inner = rest[rest.index(after: rest.startIndex)..<end]
        while let next = inner.popFirst() {
            if next == "\\", let escaped = inner.first, escaped == "\"" || escaped == "\\" {
                value.append(escaped)
                inner.removeFirst()
            } else {
                value.append(next)
            }
        }
        rest = rest[rest.index(after: end)...]
        return value
    }

    private static func closing(_ text: Substring) -> Substring.Index? {
        var index = text.index(after: text.startIndex)
        while index < text.endIndex {
            if text[index] == "\\" {
                index = text.index(after: index)
                if index == text.endIndex { return nil }
            } else if text[index] == "\"" {
                return index
            }
            index = text.index(after: index)
        }
        return nil
    }
}
