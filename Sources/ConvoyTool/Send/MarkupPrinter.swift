import ConvoySupport

/// Functions that color XML and HTML, and indent XML that is written on one line.
enum MarkupPrinter {
    /// A part of a document.
    struct Token: Equatable {
        enum Kind { case text, opening, closing, complete, note }

        let kind: Kind
        let range: Range<Int>
    }

    /// The elements of HTML whose contents are not markup.
    private static let rawElements = ["script", "style"]

    static func lines(of text: String, isHTML: Bool, _ display: Display) -> [String] {
        let bytes = Array(text.utf8)
        let tokens = tokens(in: bytes, isHTML: isHTML)
        let depths = isHTML ? nil : indentation(of: tokens, in: bytes)
        var lines = IndentedLines()
        for (index, token) in tokens.enumerated() {
            if let depths {
                guard let depth = depths[index] else { continue }
                if depth >= 0 { lines.begin(String(repeating: "  ", count: depth)) }
            }
            let part = bytes[token.range]
            switch token.kind {
            case .text: lines.add(part, nil, display)
            case .note: lines.add(part, .dim, display)
            case .opening, .closing, .complete: add(tag: part, to: &lines, display)
            }
        }
        return lines.all
    }

    /// The lines of the result. Each part of a line is made safe for a terminal before it is colored.
    private struct IndentedLines {
        var all = [""]

        mutating func begin(_ indent: String) {
            if all.last?.isEmpty == false { all.append("") }
            all[all.count - 1] += indent
        }

        mutating func add(_ bytes: ArraySlice<UInt8>, _ colour: Display.Colour?, _ display: Display) {
            let pieces = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            for (index, piece) in pieces.enumerated() {
                if index > 0 { all.append("") }
                let text = TextPrinter.line(String(decoding: piece, as: UTF8.self))
                all[all.count - 1] += colour.map { display.paint(text, $0) } ?? text
            }
        }
    }

    /// Adds a tag: its name, and the names and values of its attributes.
    private static func add(tag bytes: ArraySlice<UInt8>, to lines: inout IndentedLines, _ display: Display) {
        var rest = bytes
        func take(while isPart: (UInt8) -> Bool) -> ArraySlice<UInt8> {
            let part = rest.prefix(while: isPart)
            rest = rest.dropFirst(part.count)
            return part
        }
        let space = { (byte: UInt8) in ASCII.isWhitespace(byte) || byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") }
        lines.add(take { !space($0) && $0 != UInt8(ascii: ">") }, .cyan, display)
        while let next = rest.first {
            if space(next) {
                lines.add(take(while: space), nil, display)
            } else if next == UInt8(ascii: ">") || next == UInt8(ascii: "/") || next == UInt8(ascii: "?") {
                lines.add(take { $0 == next }, .cyan, display)
            } else if next == UInt8(ascii: "\"") || next == UInt8(ascii: "'") {
                rest = rest.dropFirst()
                let value = take { $0 != next }
                rest = rest.dropFirst()
                lines.add(ArraySlice([next] + value + [next]), .green, display)
            } else if next == UInt8(ascii: "=") {
                lines.add(take { $0 == next }, nil, display)
                lines.add(take { !space($0) && !"\"'>".utf8.contains($0) }, .green, display)
            } else {
                lines.add(take { !space($0) && !"=>\"'".utf8.contains($0) }, .yellow, display)
            }
        }
    }

    // MARK: Tokens

    /// Splits a document. Every byte belongs to one token, and markup that never ends is text.
    static func tokens(in bytes: [UInt8], isHTML: Bool) -> [Token] {
        var tokens: [Token] = [], start = 0, index = 0
        func ending(with mark: String) -> Int? { bytes.firstRange(of: Array(mark.utf8), from: index)?.upperBound }
        func add(_ kind: Token.Kind, _ range: Range<Int>) {
            if start < range.lowerBound { tokens.append(Token(kind: .text, range: start..<range.lowerBound)) }
            tokens.append(Token(kind: kind, range: range))
            start = range.upperBound
            index = range.upperBound
        }
        while let open = bytes[index...].firstIndex(of: UInt8(ascii: "<")) {
            index = open + 1
            let rest = bytes[index...]
            if rest.starts(with: "!--".utf8) {
                guard let end = ending(with: "-->") else { break }
                add(.note, open..<end)
            } else if rest.starts(with: "![CDATA[".utf8) {
                guard let end = ending(with: "]]>") else { break }
                index = end
            } else if let next = rest.first, "!?".utf8.contains(next) {
                guard let end = ending(with: ">") else { break }
                add(.note, open..<end)
            } else if let next = rest.first, next == UInt8(ascii: "/") || isName(next) {
                guard let end = tagEnd(in: bytes, from: index) else { break }
                let isClosing = next == UInt8(ascii: "/"), isComplete = bytes[end - 2] == UInt8(ascii: "/")
                add(isClosing ? .closing : isComplete ? .complete : .opening, open..<end)
                guard isHTML, !isClosing, !isComplete, let raw = rawElement(bytes[(open + 1)..<end]) else { continue }
                // The contents of the element are text.
                index = bytes.firstIndex(ofClosingTag: raw, from: end) ?? bytes.count
            }
        }
        if start < bytes.count { tokens.append(Token(kind: .text, range: start..<bytes.count)) }
        return tokens
    }

    private static func isName(_ byte: UInt8) -> Bool {
        switch ASCII.lowercased(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "_"), 0x80...: true
        default: false
        }
    }

    /// Returns the end of a tag, whose quoted values may contain `>`.
    private static func tagEnd(in bytes: [UInt8], from index: Int) -> Int? {
        var quote: UInt8?, index = index
        while index < bytes.count {
            let byte = bytes[index]
            if let open = quote {
                if byte == open { quote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                return index + 1
            }
            index += 1
        }
        return nil
    }

    private static func rawElement(_ tag: ArraySlice<UInt8>) -> String? {
        rawElements.first { name in
            tag.count > name.utf8.count && ASCII.equalIgnoringCase(tag.prefix(name.utf8.count), name.utf8)
                && !isName(tag[tag.startIndex + name.utf8.count])
        }
    }

    // MARK: Indentation

    /// Returns the depth of each token at which a line begins, -1 for tokens within a line, and nil for white space that is
    /// left out. Returns nil if the document has line breaks or elements with both text and elements, which must not change.
    private static func indentation(of tokens: [Token], in bytes: [UInt8]) -> [Int?]? {
        guard let first = tokens.first(where: { $0.kind != .note && $0.kind != .text }),
            !bytes[first.range.lowerBound...].dropLast().contains(UInt8(ascii: "\n"))
        else { return nil }
        struct Element { var hasText = false, hasElements = false }
        var depths: [Int?] = [], open: [Element] = []
        for token in tokens {
            switch token.kind {
            case .text:
                guard bytes[token.range].contains(where: { !ASCII.isWhitespace($0) && $0 != UInt8(ascii: "\n") }) else {
                    depths.append(nil)
                    continue
                }
                guard let parent = open.last, !parent.hasElements else { return nil }
                open[open.count - 1].hasText = true
                depths.append(-1)
            case .opening, .complete, .note:
                if let parent = open.last {
                    guard !parent.hasText else { return nil }
                    open[open.count - 1].hasElements = true
                }
                depths.append(open.count)
                if token.kind == .opening { open.append(Element()) }
            case .closing:
                guard let element = open.popLast() else { return nil }
                depths.append(element.hasElements ? open.count : -1)
            }
            // Deeper documents are rare, and their indentation would be longer than their contents.
            guard open.count <= 100 else { return nil }
        }
        return open.isEmpty ? depths : nil
    }
}

extension [UInt8] {
    /// Returns the first range of other bytes at or after an index.
    fileprivate func firstRange(of other: [UInt8], from index: Int) -> Range<Int>? {
        guard let first = other.first else { return nil }
        var index = index
        while let found = self[index...].firstIndex(of: first) {
            if self[found...].starts(with: other) { return found..<(found + other.count) }
            index = found + 1
        }
        return nil
    }

    /// Returns the index of the first closing tag of an element at or after an index.
    fileprivate func firstIndex(ofClosingTag name: String, from index: Int) -> Int? {
        var index = index
        while let found = firstRange(of: Array("</".utf8), from: index) {
            let end = found.upperBound + name.utf8.count
            if end <= count, ASCII.equalIgnoringCase(self[found.upperBound..<end], name.utf8) { return found.lowerBound }
            index = found.upperBound
        }
        return nil
    }
}
