import ConvoyWorkflow
import Foundation

/// Functions that format bodies for people.
enum TextPrinter {
    /// Returns a line that is safe for a terminal. Tabs become spaces.
    static func line(_ text: String) -> String {
        let line = text.unicodeScalars.last == "\r" ? String(text.unicodeScalars.dropLast()) : text
        return Printable.line(line.replacing("\t", with: "    "))
    }

    /// Returns the lines of a body: JSON and XML are indented, JSON, XML and HTML are colored, and a body that is not text is
    /// described.
    static func lines(of body: ReadableBody, _ display: Display) -> [String] {
        if body.data.isEmpty { return [] }
        if let json = body.json { return JSONPrinter.lines(of: json, display) }
        guard let text = body.text, !text.unicodeScalars.contains("\0") else { return [binary(Int64(body.data.count))] }
        let type = body.mediaType
        if type.hasSuffix("html") || type.hasSuffix("xml") {
            return MarkupPrinter.lines(of: text, isHTML: type.hasSuffix("html"), display)
        }
        return text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map { line(String($0)) }
    }

    /// Returns a description of data that is not printed.
    static func binary(_ count: Int64) -> String {
        "(\(Amounts.bytes(count)) of binary data; redirect the output to a file or a pipe)"
    }
}
