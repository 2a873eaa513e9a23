import ConvoySupport
import Foundation

/// The initial headers of every serializer, computed once per process.
enum DefaultHeaders {
    static let fields: HeaderFields = {
        var fields = HeaderFields()
        let languages = acceptLanguage(Locale.preferredLanguages)
        if !languages.isEmpty { fields.set(languages, for: "Accept-Language") }
        fields.set(UserAgent.standard, for: "User-Agent")
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
}
