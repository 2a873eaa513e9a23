import Foundation

/// What requests call the program that sends them, unless they say otherwise.
package enum UserAgent {
    /// `<program>/<version> (Linux)`, ASCII only. A server learns nothing of the system beyond that: its exact version
    /// tells one machine from another, and libcurl formats each request's head byte by byte.
    package static let standard: String = {
        let bundle = Bundle.main.infoDictionary ?? [:]
        let name = (bundle["CFBundleExecutable"] as? String) ?? ProcessInfo.processInfo.processName
        let version = (bundle["CFBundleShortVersionString"] as? String) ?? (bundle["CFBundleVersion"] as? String)
        return text(name: name, version: version ?? "1.0")
    }()

    package static func text(name: String, version: String) -> String {
        #if os(Linux)
        let platform = "Linux"
        #elseif os(macOS)
        let platform = "Mac OS X"
        #else
        let platform = "Unknown"
        #endif
        return "\(token(name, or: "Convoy"))/\(token(version, or: "1.0")) (\(platform))"
    }

    /// Text as a product name (RFC 9110, section 10.1.5): what is no token character becomes `_`, once per run.
    private static func token(_ text: String, or substitute: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            let piece = String(scalar)
            if HTTPSyntax.isToken(piece) {
                result += piece
            } else if !result.hasSuffix("_") {
                result += "_"
            }
        }
        return result.contains { $0 != "_" } ? result : substitute
    }
}
