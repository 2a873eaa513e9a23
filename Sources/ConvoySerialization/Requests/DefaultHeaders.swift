import ConvoySupport
import Foundation

/// The initial headers of every serializer, computed once per process.
enum DefaultHeaders {
    static let fields: HeaderFields = {
        var fields = HeaderFields()
        let languages = acceptLanguage(Locale.preferredLanguages)
        if !languages.isEmpty { fields.set(languages, for: "Accept-Language") }
        fields.set(userAgent, for: "User-Agent")
        return fields
    }()

    /// The user's first six languages with decreasing weights, `en;q=1, fr;q=0.9`, as in `AFHTTPRequestSerializer` (RFC
    /// 9110, section 12.5.4).
    static func acceptLanguage(_ languages: [String]) -> String {
        var items: [String] = []
        for (index, language) in languages.prefix(6).enumerated() {
            let tenths = 10 - index
            items.append("\(language);q=\(tenths == 10 ? "1" : "0.\(tenths)")")
        }
        return items.filter(HTTPSyntax.isFieldValue).joined(separator: ", ")
    }

    /// `<program>/<version> (Linux; <system>)`, ASCII only.
    static let userAgent: String = {
        let bundle = Bundle.main.infoDictionary ?? [:]
        let name = (bundle["CFBundleExecutable"] as? String) ?? ProcessInfo.processInfo.processName
        let version = (bundle["CFBundleShortVersionString"] as? String) ?? (bundle["CFBundleVersion"] as? String)
        return userAgent(
            name: name, version: version ?? "1.0", system: ProcessInfo.processInfo.operatingSystemVersionString)
    }()

    static func userAgent(name: String, version: String, system: String) -> String {
        #if os(Linux)
        let platform = "Linux"
        #elseif os(macOS)
        let platform = "Mac OS X"
        #else
        let platform = "Unknown"
        #endif
        return "\(token(name, or: "Convoy"))/\(token(version, or: "1.0")) (\(platform); \(comment(system)))"
    }

    /// Text as a product name (RFC 9110, section 10.1.5): each run of other than token characters becomes one `_`.
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

    /// Text for the inside of a comment (RFC 9110, section 5.6.5), without parentheses and backslashes, which are
    /// special there.
    private static func comment(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.filter {
                    $0.value >= 0x20 && $0.value < 0x7F && !"()\\".unicodeScalars.contains($0)
                }
            ))
    }
}
