import ConvoySupport
import Foundation

/// The headers that a serializer adds to every request. Names are case-insensitive.
///
/// Fields that cannot be sent are recorded when they are stored, so that creating a request only requires checking
/// whether any were recorded.
struct HeaderFields: Sendable, Hashable {
    private(set) var fields: [String: String] = [:]
    private var failures: [String: RequestSerializationFailure] = [:]

    /// Stores a value; nil removes the field. Replaces a field with the same name in a different case.
    mutating func set(_ value: String?, for name: String) {
        if fields[name] == nil, let other = fields.keys.first(where: { HTTPSyntax.isSameField($0, name) }) {
            fields[other] = nil
            failures[other] = nil
        }
        fields[name] = value
        failures[name] = value.flatMap { HeaderFields.failure(name: name, value: $0) }
    }

    /// Marks a stored field as one that must not be sent.
    mutating func reject(_ name: String, because failure: RequestSerializationFailure) {
        failures[name] = failure
    }

    func value(for name: String) -> String? {
        fields[name] ?? fields.first { HTTPSyntax.isSameField($0.key, name) }?.value
    }

    /// Throws an error for the first field, sorted by name, that cannot be sent.
    func check() throws {
        guard !failures.isEmpty, let first = failures.min(by: { $0.key < $1.key }) else { return }
        throw HeaderFields.error(first.value, name: first.key)
    }

    static func check(name: String, value: String) throws {
        if let failure = failure(name: name, value: value) { throw error(failure, name: name) }
    }

    /// Throws an error if a field is given in two spellings, because either value could be used.
    static func checkNames(_ names: some Collection<String>) throws {
        var seen: [String] = []
        for name in names.sorted() {
            if seen.contains(where: { HTTPSyntax.isSameField($0, name) }) { throw error(.repeatedHeader, name: name) }
            seen.append(name)
        }
    }

    private static func failure(name: String, value: String) -> RequestSerializationFailure? {
        if !HTTPSyntax.isToken(name) { return .invalidHeaderName }
        if !HTTPSyntax.isFieldValue(value) { return .invalidHeaderValue }
        return nil
    }

    private static func error(_ failure: RequestSerializationFailure, name: String) -> NSError {
        let reason =
            switch failure {
            case .invalidHeaderName: "A header name is not a token (RFC 9110, section 5.6.2)."
            case .repeatedHeader: "The header \(name) is given twice, in different spellings (RFC 9110, section 5.1)."
            case .invalidUserName: "A user name with a colon cannot be sent with Basic authorization (RFC 7617)."
            default: "The value of the header \(name) contains a control character (RFC 9110, section 5.5)."
            }
        return .request(failure, reason, subject: name)
    }
}

/// The initial headers of every serializer, computed once per process.
enum DefaultHeaders {
    static let fields: HeaderFields = {
        var fields = HeaderFields()
        #if os(Linux)
        // On Linux, Foundation always returns `en-001`, regardless of the locale.
        let languages = acceptLanguage(Self.languages(of: ProcessInfo.processInfo.environment))
        #else
        let languages = acceptLanguage(Locale.preferredLanguages)
        #endif
        if !languages.isEmpty { fields.set(languages, for: "Accept-Language") }
        fields.set(UserAgent.standard, for: "User-Agent")
        return fields
    }()

    /// Returns the languages specified by the locale's environment variables, as gettext reads them: `de-DE` for
    /// `de_DE.UTF-8`. The list in `LANGUAGE` takes precedence, but only if a locale is set. The result is empty for the
    /// locale `C`.
    static func languages(of environment: [String: String]) -> [String] {
        func language(_ locale: Substring) -> String? {
            let name = locale.prefix { $0 != "." && $0 != "@" }
            return name.isEmpty || name == "C" || name == "POSIX" ? nil : String(name).replacing("_", with: "-")
        }
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
        guard let own = language(locale[...]) else { return [] }
        let listed = environment["LANGUAGE", default: ""].split(separator: ":").compactMap(language)
        return listed.isEmpty ? [own] : listed
    }

    /// Returns the user's first six languages with decreasing weights, `en, fr;q=0.9`, as in `AFHTTPRequestSerializer`
    /// (RFC 9110, section 12.5.4).
    static func acceptLanguage(_ languages: [String]) -> String {
        let items = languages.prefix(6).enumerated().map { $0 == 0 ? $1 : "\($1);q=0.\(10 - $0)" }
        return items.filter(HTTPSyntax.isFieldValue).joined(separator: ", ")
    }
}
