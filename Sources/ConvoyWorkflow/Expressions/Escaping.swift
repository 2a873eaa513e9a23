import ConvoySupport
import Foundation

extension StringProtocol {
    /// Whether a reference begins with a scheme: in a relative one, no colon comes before the first slash (RFC 3986, section
    /// 4.2).
    var hasScheme: Bool { prefix { !"/?#".contains($0) }.contains(":") }
}

/// Makes values fit for where they go. What comes from a response may be anything.
enum Escaping {
    static func hasControls(_ text: String) -> Bool {
        text.unicodeScalars.contains { ($0.value < 0x20 && $0 != "\t") || $0.value == 0x7F }
    }

    /// A value as part of a path or a query: all but unreserved characters percent-encoded (RFC 3986, section 2.3).
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
        guard !hasControls(text) else { throw EvaluationError(message: "the value for a header has control characters") }
        return text
    }

    /// A value as part of a file's name: it never leads to another directory, is never hidden, and has no control characters.
    static func fileName(_ text: String) throws(EvaluationError) -> String {
        var name = ""
        for scalar in text.unicodeScalars {
            let isBad =
                scalar == "/" || scalar == "\\" || scalar.value < 0x20 || scalar.value == 0x7F
                || scalar.properties.isBidiControl
            name.unicodeScalars.append(isBad ? "_" : scalar)
        }
        while name.hasPrefix(".") { name = "_" + name.dropFirst() }
        while name.utf8.count > 200 { name.removeLast() }
        guard !name.isEmpty else { throw EvaluationError(message: "the value for a file name is empty") }
        return name
    }
}

/// Paths below the output directory.
enum OutputPath {
    /// The path without empty components and dots; nil for one that leads elsewhere, or to no file.
    static func normalized(_ text: String) -> String? {
        guard !text.hasPrefix("/"), !text.hasSuffix("/"), !text.utf8.contains(0) else { return nil }
        let components = text.split(separator: "/" as Character).filter { $0 != "." }
        guard !components.isEmpty, !components.contains("..") else { return nil }
        return components.joined(separator: "/")
    }
}
