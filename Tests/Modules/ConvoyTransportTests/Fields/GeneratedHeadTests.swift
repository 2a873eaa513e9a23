import ConvoyTestSupport
import Foundation
import FoundationNetworking
import Testing

@testable import ConvoyTransport

/// Compares the parser of heads with an independent one, which parses a complete head as text.
@Suite struct GeneratedHeadTests {
    /// The meaning of a well-formed head.
    struct Meaning: Equatable {
        var fields: [String]
        var contentLength: Int64?
        var isChunked: Bool

        /// Parses a head strictly by RFC 9112, but like libcurl, reads framing only from the first line of a field.
        init?(reference head: [UInt8]) {
            guard !head.contains(0) else { return nil }
            func text(_ bytes: some Sequence<UInt8>) -> String {
                String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
            }
            func trimmed(_ text: String) -> String { text.trimmingCharacters(in: CharacterSet(charactersIn: " \t")) }
            var fields: [(name: String, first: String, whole: String)] = []
            for line in head.split(separator: 0x0A, omittingEmptySubsequences: false).dropFirst().dropLast(2) {
                let content = line.last == 0x0D ? line.dropLast() : line
                let plain = trimmed(text(content.map { $0 == 0x0D ? 0x20 : $0 }))
                if content.first == 0x20 || content.first == 0x09 {
                    guard let last = fields.last else { return nil }
                    let whole = last.whole.isEmpty ? plain : trimmed(last.whole + " " + plain)
                    fields[fields.count - 1].whole = whole
                    continue
                }
                let parts = content.split(separator: 0x3A, maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, text(parts[0]).wholeMatch(of: /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/) != nil else {
                    return nil
                }
                let value = trimmed(text(parts[1].map { $0 == 0x0D ? 0x20 : $0 }))
                fields.append((text(parts[0]), trimmed(text(parts[1])), value))
            }
            self.fields = fields.map { "\($0.name): \($0.whole)" }
            isChunked = false
            for (name, first, whole) in fields {
                switch name.lowercased() {
                case "content-length":
                    for value in (first + "," + whole).components(separatedBy: ",").map(trimmed) {
                        guard !value.isEmpty, value.allSatisfy({ "0123456789".contains($0) }), let length = Int64(value),
                            contentLength == nil || contentLength == length
                        else { return nil }
                        contentLength = length
                    }
                case "transfer-encoding":
                    guard first.lowercased() == whole.lowercased() else { return nil }
                    if whole.lowercased() == "identity" { continue }
                    guard whole.lowercased() == "chunked", !isChunked else { return nil }
                    isChunked = true
                default: break
                }
            }
        }

        /// Parses a head with the library.
        init?(library head: [UInt8]) throws {
            var parser = HeadParser()
            let step = FieldPlace.feed(head, to: &parser)
            if case .refused = step { return nil }
            try #require(step == .whole)
            fields = try FieldPlace.head(parser).forCache.fields.map { "\($0.name): \($0.value)" }
            isChunked = parser.contentLength == nil && !parser.isEndedByConnection
            contentLength = parser.contentLength
        }
    }

    private static func head(_ random: inout SplitMix64) -> [UInt8] {
        func pick(_ texts: [String]) -> String { texts.randomElement(using: &random) ?? "" }
        func chance(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }
        func fold() -> String { pick(["\r\n ", "\n\t", " \r\n  ", "\t\n \r\n\t"]) }
        var head = "HTTP/1.1 200 OK" + pick(["\r\n", "\n"])
        if chance(40) { head += " X: folded\r\n" }
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            var name = pick([
                "X", "X-A", "ETag", "Content-Length", "content-length", "Transfer-Encoding", "TRANSFER-ENCODING",
                "Set-Cookie",
                "Content-Encoding", "Connection", "X_1.2~", "!#$%&'*+", "Content-Lengthy",
            ])
            if chance(40) { name += pick([" ", "\t", "\r", "\u{1}", "(", "\u{7F}", "/", "\"", "é", " B"]) }
            if chance(80) { name = pick(["", "\r", "\u{0}", "@"]) + name.dropFirst() }
            var parts = pick([
                "7", "7", "7, 7", "chunked", "chunked", "identity", "gzip, br", "a=b; Path=/", "\"a b\"", "", "a:b",
                "é",
            ])
            .components(separatedBy: " ")
            if chance(60) { parts.append(pick(["\u{0}", "\u{8}", "8"])) }
            var value = parts.removeFirst()
            if chance(12) { value = fold() + value }
            for part in parts { value += (chance(4) ? fold() : " ") + part }
            if chance(12) { value += fold() }
            // Without a colon and a name, the line would be empty and end the head.
            head +=
                name + (chance(60) && name.first?.isLetter == true ? "" : ":") + pick(["", " ", " ", "\t "]) + value
                + pick(["\r\n", "\r\n", "\n", " \r\n"])
        }
        // The string is encoded as Latin-1, so that some bytes are not valid UTF-8.
        return (head + pick(["\r\n", "\n"])).unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
    }

    @Test func `10,000 generated heads are parsed as by an independent parser`() throws {
        var random = SplitMix64.printingSeed()
        var refused = 0
        for _ in 0..<10_000 {
            let head = Self.head(&random)
            let (expected, found) = (Meaning(reference: head), try Meaning(library: head))
            if expected == nil { refused += 1 }
            // A chunked body has no length.
            var adjusted = expected
            if adjusted?.isChunked == true { adjusted?.contentLength = nil }
            guard adjusted == found else {
                return #expect(
                    adjusted == found, "\(String(decoding: head, as: UTF8.self).debugDescription)")
            }
        }
        // Both results must occur often for the comparison to be meaningful.
        #expect(refused > 1000 && refused < 9000, "\(refused)")
    }
}
