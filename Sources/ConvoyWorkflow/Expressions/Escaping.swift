import ConvoySupport
import Foundation

extension StringProtocol {
    /// Whether a URL reference has a scheme. A relative reference has no colon before the first slash (RFC 3986,
    /// section 4.2).
    var hasScheme: Bool { prefix { !"/?#".contains($0) }.contains(":") }
}

/// Functions that escape values for their destination. Values of a response are untrusted.
enum Escaping {
    /// The maximum length of a value in a file name, in bytes.
    private static let maximumLength = 200

    static func hasControls(_ text: String) -> Bool {
        text.unicodeScalars.contains { ($0.value < 0x20 && $0 != "\t") || $0.value == 0x7F }
    }

    /// Escapes a value for a path or a query: everything except unreserved characters is percent-encoded (RFC 3986, section
    /// 2.3).
    static func url(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39,
                UInt8(ascii: "-"),
                UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                bytes.append(byte)
            default:
                bytes += [
                    UInt8(ascii: "%"), ASCII.hexadecimalDigit(byte >> 4, uppercase: true),
                    ASCII.hexadecimalDigit(byte & 15, uppercase: true),
                ]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    static func header(_ text: String) throws(EvaluationError) -> String {
        guard !hasControls(text) else {
            throw EvaluationError(message: "the value for a header contains control characters")
        }
        return text
    }

    /// Escapes a value for a file name, which stays in its directory, is never hidden, and has no control characters.
    static func fileName(_ text: String) throws(EvaluationError) -> String {
        var name = ""
        for scalar in text.unicodeScalars {
            let isBad =
                scalar == "/" || scalar == "\\" || scalar.value < 0x20 || scalar.value == 0x7F
                || scalar.properties.isBidiControl
            name.unicodeScalars.append(isBad ? "_" : scalar)
        }
        // Compare scalars: a dot with an accent is a different `Character`, but the system still hides the file.
        if name.unicodeScalars.first == "." {
            let dots = name.unicodeScalars.prefix { $0 == "." }.count
            name = String(repeating: "_", count: dots) + String(name.unicodeScalars.dropFirst(dots))
        }
        if name.utf8.count > maximumLength {
            var end = name.utf8.index(name.startIndex, offsetBy: maximumLength)
            while end > name.startIndex, end.samePosition(in: name.unicodeScalars) == nil {
                name.utf8.formIndex(before: &end)
            }
            name = String(name[..<end])
        }
        guard !name.isEmpty else { throw EvaluationError(message: "the value for a file name is empty") }
        return name
    }
}

/// Paths below the output directory.
enum OutputPath {
    /// Returns the path without empty components and dots, or nil if it leads outside or does not name a file.
    static func normalized(_ text: String) -> String? {
        guard text.utf8.first != UInt8(ascii: "/"), text.utf8.last != UInt8(ascii: "/"), !text.utf8.contains(0) else {
            return nil
        }
        let components = PathText.components(of: text).filter { !$0.isEmpty && $0 != "." }
        guard !components.isEmpty, !components.contains("..") else { return nil }
        return components.joined(separator: "/")
    }

    /// Returns the path of an output, with the values of a scope inserted.
    static func path(of template: Template, in scope: some Scope) throws(EvaluationError) -> String {
        let text = try template.text(in: scope) { value, reference throws(EvaluationError) in
            value.isHostile || reference.root == "item" ? try Escaping.fileName(value.json.text) : value.json.text
        }
        guard let path = normalized(text) else {
            throw EvaluationError(
                message: "invalid output \(quoted(text, isCut: false)): it must be a path below the output directory")
        }
        return path
    }
}
