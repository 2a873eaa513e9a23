import ConvoySupport
import Foundation
import Testing

@testable import ConvoyOperations

/// Tests that lines are the same for any division of the bytes.
@Suite struct LineSplitterTests {
    /// Returns the lines of a string that is split into blocks of a given size.
    private func lines(_ text: String, by size: Int, limit: Int = 1000) throws -> [String] {
        var splitter = LineSplitter(maximumLength: limit)
        var lines: [String] = []
        let bytes = Data(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: size) {
            splitter.add(Data(bytes[start..<min(start + size, bytes.count)]))
            while let line = try splitter.next() { lines.append(line) }
        }
        if let last = splitter.finish() { lines.append(last) }
        return lines
    }

    @Test(arguments: 1...9)
    func `LF, CR and CR LF end a line, and empty lines count`(size: Int) throws {
        #expect(try lines("a\nb\r\nc\rd\n\n\r\n\r\re", by: size) == ["a", "b", "c", "d", "", "", "", "", "e"])
        #expect(try lines("", by: size) == [])
        #expect(try lines("\n", by: size) == [""])
        #expect(try lines("a\n", by: size) == ["a"])
        #expect(try lines("a\r", by: size) == ["a"])
        // Separators that JSON allows within a string do not end a line.
        #expect(try lines("é\u{2028}😀\u{85}ü\nß", by: size) == ["é\u{2028}😀\u{85}ü", "ß"])
    }

    @Test func `a CR ends its line before the next byte is known`() throws {
        var splitter = LineSplitter(maximumLength: 10)
        splitter.add(Data("a\r".utf8))
        #expect(try splitter.next() == "a")
        #expect(try splitter.next() == nil)
        splitter.add(Data("\nb\n".utf8))
        #expect(try splitter.next() == "b")
        #expect(try splitter.next() == nil)
        #expect(splitter.finish() == nil)
    }

    @Test(arguments: [1, 4, 11, 100])
    func `a line that is too long is an error, with and without its terminator`(size: Int) throws {
        #expect(try lines("0123456789\n0123456789", by: size, limit: 10).count == 2)
        for text in ["0123456789a", "0123456789a\n", "x\n0123456789a\r\n"] {
            #expect(throws: ResponseBytesError.lineTooLong(limit: 10)) { try lines(text, by: size, limit: 10) }
        }
    }

    @Test func `bytes that are not UTF-8 are replaced`() throws {
        var splitter = LineSplitter(maximumLength: 10)
        splitter.add(Data([0x61, 0xFF, 0x62, 0x0A]))
        let line = try splitter.next()
        #expect(line == "a\u{FFFD}b")
    }
}
