/// Reads the parts of `curl -F`: `name=text;type=…`, `name=@file;filename=…`, `name=<file`.
enum CurlFormPart {
    /// The part, and what of it a manifest cannot say.
    static func part(_ text: String) throws(CurlCommandLine.Problem) -> (part: RequestDraft.Part?, notes: [String]) {
        guard let equals = text.firstIndex(of: "=") else {
            throw CurlCommandLine.Problem(description: "a part without an =: \(text)")
        }
        let name = String(text[..<equals])
        var rest = text[text.index(after: equals)...]
        let mark = rest.first
        let isFile = mark == "@"
        if isFile { rest.removeFirst() }
        if mark == "<" { return (nil, ["-F '\(text)': the text of a file as a part; put it into value"]) }
        var notes: [String] = []
        // The value may be in quotes, if it has a semicolon or a comma.
        let content = field(&rest, stops: isFile ? ";," : ";")
        if isFile, content == "-" { return (nil, ["-F '\(text)': standard input as a part; put it into a file"]) }
        if rest.first == "," { notes.append("-F '\(text)': only the first of several files of one part is here") }
        rest = rest.drop { $0 != ";" }
        var part = RequestDraft.Part(name: name, value: content, isFile: isFile)
        while rest.first == ";" {
            rest = rest.dropFirst().drop { $0 == " " }
            let key = rest.prefix { $0 != "=" && $0 != ";" }
            rest = rest.dropFirst(key.count)
            guard rest.first == "=" else {
                // A parameter of the type before it: `type=text/plain;charset=utf-8` is handled below.
                if !key.isEmpty { notes.append("-F '\(text)': left out ;\(key)") }
                continue
            }
            rest.removeFirst()
            let value = field(&rest, stops: ";")
            switch key.lowercased() {
            case "type": part.type = value
            case "filename": part.fileName = value
            case "charset" where part.type != nil: part.type? += ";charset=\(value)"
            default: notes.append("-F '\(text)': left out \(key)=\(value)")
            }
        }
        return (part, notes)
    }

    /// A value up to a character of `stops`, or in double quotes, in which a backslash is before a quote or a backslash.
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
