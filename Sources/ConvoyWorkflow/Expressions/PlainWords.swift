import Foundation

/// Functions that replace the words of an error message that only programmers understand: names of the library's API,
/// and the codes of OpenSSL and Foundation. They take linear time, because a message may contain values from a server.
package enum PlainWords {
    package static func of(_ text: String) -> String {
        var text = text
        replaceSentences(
            of: &text, naming: ["sendsBodiesAcrossOrigins", "redirectHandler"],
            with: " Send the request to that server directly.")
        replaceSentences(
            of: &text, naming: ["operation's credential"], with: " Use --user, or the key user of a manifest.")
        replaceFoundationCodes(of: &text)
        replaceOpenSSLCodes(of: &text)
        return text
    }

    private static func replaceSentences(of text: inout String, naming words: [String], with sentence: String) {
        guard words.contains(where: text.contains) else { return }
        var parts = text.split(separator: "." as Character, omittingEmptySubsequences: false).map(String.init)
        // The text after the last period is not a sentence.
        for index in parts.indices.dropLast() where words.contains(where: parts[index].contains) {
            parts[index] = String(sentence.dropLast())
        }
        text = parts.joined(separator: ".")
    }

    /// Replaces codes of Foundation, for example "(NSCocoaErrorDomain error 512.)".
    private static func replaceFoundationCodes(of text: inout String) {
        let sentence = "A file cannot be read or written: check its path and permissions."
        text = text.replacing("File URL not reachable.", with: sentence)
        for domain in ["(NSCocoaErrorDomain error ", "(NSPOSIXErrorDomain error "] {
            guard let start = text.firstRange(of: domain), let end = text[start.upperBound...].firstRange(of: ".)"),
                Int(text[start.upperBound..<end.lowerBound]) != nil
            else { continue }
            text.replaceSubrange(start.lowerBound..<end.upperBound, with: sentence)
        }
    }

    /// Replaces codes of OpenSSL, for example "OpenSSL/3.0.19: error:0A00010B:SSL routines::wrong version number".
    private static func replaceOpenSSLCodes(of text: inout String) {
        guard let mark = text.firstRange(of: ": error:") else { return }
        let before = text[..<mark.lowerBound]
        guard let start = before.ranges(of: "OpenSSL/").last ?? before.ranges(of: "TLS connect error").last,
            // The code, the library and the function precede the reason.
            case let fields = text[mark.upperBound...].split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false),
            fields.count == 4, fields[0].utf8.count == 8, fields[0].allSatisfy(\.isHexDigit)
        else { return }
        let reason = fields[3].prefix { $0 != "(" }
        var words = reason
        while words.last == " " { words.removeLast() }
        let sentence =
            switch words {
            case "wrong version number", "packet length too long", "http request":
                "The server does not use TLS on this port: try http:// instead of https://."
            default: "TLS failed: \(words)."
            }
        text.replaceSubrange(start.lowerBound..<words.endIndex, with: sentence)
    }
}
