import Foundation

/// A file in the format of Bruno: blocks of pairs, of lines, or of text.
struct BrunoFile {
    /// A block: `headers { … }`.
    struct Block {
        let name: String
        /// The lines between the braces, without their indentation.
        let lines: [String]
        /// The line number, from 1.
        let line: Int

        /// The text of a block such as `body:json`.
        var text: String { lines.joined(separator: "\n") }

        /// The pairs of a block such as `headers`, without those that are disabled.
        var pairs: [(name: String, value: String)] {
            var pairs: [(name: String, value: String)] = [], rest = lines[...]
            while let line = rest.popFirst() {
                let text = line.trimmingCharacters(in: .whitespaces)
                guard !text.isEmpty else { continue }
                guard var (name, value) = Self.pair(text) else { continue }
                // A value may continue on further lines, between '''.
                if value == "'''" || value.hasPrefix("'''") && !value.dropFirst(3).contains("'''") {
                    var content = value.count > 3 ? [String(value.dropFirst(3))] : []
                    while let next = rest.popFirst(), next.trimmingCharacters(in: .whitespaces) != "'''" {
                        content.append(next)
                    }
                    value = content.map { $0.hasPrefix("  ") ? String($0.dropFirst(2)) : $0 }.joined(separator: "\n")
                }
                if name.hasPrefix("~") { continue }
                if name.hasPrefix("@") { name.removeFirst() }
                pairs.append((name, value))
            }
            return pairs
        }

        private static func pair(_ text: String) -> (String, String)? {
            if text.hasPrefix("\""), let end = text.dropFirst().firstIndex(of: "\"") {
                let rest = text[text.index(after: end)...]
                guard rest.hasPrefix(":") else { return nil }
                return (String(text.dropFirst()[..<end]), rest.dropFirst().trimmingCharacters(in: .whitespaces))
            }
            // A disabled name may be quoted.
            if text.hasPrefix("~") {
                // The following lines of a value belong to it.
                let mark = text.range(of: "'''")
                let isOpen = mark.map { !text[$0.upperBound...].contains("'''") } ?? false
                return ("~", isOpen ? "'''" : "")
            }
            guard let colon = text.firstIndex(of: ":") else { return nil }
            return (
                text[..<colon].trimmingCharacters(in: .whitespaces),
                text[text.index(after: colon)...].trimmingCharacters(in: .whitespaces)
            )
        }

        func value(_ name: String) -> String? { pairs.first { $0.name == name }?.value }
    }

    let blocks: [Block]

    /// Parses a file, and throws the first line that is not a block.
    init(_ text: String) throws(BrunoReader.Problem) {
        var blocks: [Block] = [], number = 0
        let lines = text.replacing("\r\n", with: "\n").split(separator: "\n", omittingEmptySubsequences: false).map(
            String.init)
        while number < lines.count {
            let head = lines[number].trimmingCharacters(in: .whitespaces)
            number += 1
            guard !head.isEmpty else { continue }
            guard let last = head.last, last == "{" || last == "[" else {
                if head.hasSuffix("{}") || head.hasSuffix("[]") || head.hasSuffix("{ }") { continue }
                throw BrunoReader.Problem(description: "line \(number): expected a block, such as headers {")
            }
            let start = number, close = last == "{" ? "}" : "]"
            var content: [String] = []
            while number < lines.count, lines[number].prefix(1) != close {
                let line = lines[number]
                content.append(line.hasPrefix("  ") ? String(line.dropFirst(2)) : line)
                number += 1
            }
            guard number < lines.count else {
                throw BrunoReader.Problem(description: "line \(start): the block is not closed")
            }
            number += 1
            blocks.append(
                Block(name: head.dropLast().trimmingCharacters(in: .whitespaces), lines: content, line: start))
        }
        self.blocks = blocks
    }

    func first(_ name: String) -> Block? { blocks.first { $0.name == name } }

    /// Returns the texts of all blocks of a name.
    func texts(_ name: String) -> [String] { blocks.filter { $0.name == name }.map(\.text) }
}
