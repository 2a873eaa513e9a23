import ConvoySerialization
import ConvoySupport
import Foundation

extension RequestDraft {
    /// Sets the body and its media type. The body is set as `json:` or `form:` if these keys send the same values.
    ///
    /// - Parameter type: The value of `Content-Type`; nil to send none.
    mutating func setBody(_ text: String, type: String?) {
        headers.removeAll { $0.name.lowercased() == "content-type" }
        let essence = type.map { $0.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased() }
        var usual: String?
        if essence == "application/json", let json = Self.json(text) {
            body = .json(json)
            usual = essence
        } else if essence == "application/x-www-form-urlencoded", let items = Self.items(text) {
            body = .form(items)
            usual = essence
        } else {
            body = .text(text)
        }
        guard let type else {
            let isRemoved = removedHeaders.contains { $0.lowercased() == "content-type" }
            return isRemoved ? () : removedHeaders.append("Content-Type")
        }
        if type != usual { headers.append(("Content-Type", type)) }
    }

    /// Returns the JSON value in a string, or nil if a manifest cannot represent it, or if the string contains
    /// references.
    private static func json(_ text: String) -> JSON? {
        guard !text.contains("\0"), !text.contains("\\u0000") else { return nil }
        return try? JSON(parsing: Data(text.utf8), maximumDepth: 100, rejectsDuplicateKeys: true)
    }

    /// Returns the items of a form, or nil if sending them would change their values or their order.
    private static func items(_ text: String) -> [(name: String, value: String)]? {
        if text.isEmpty { return [] }
        // A decoded NUL would look like a reference to a variable.
        if text.contains("%00") { return nil }
        var items: [(name: String, value: String)] = []
        for pair in text.split(separator: "&" as Character, omittingEmptySubsequences: false) {
            guard let equals = pair.firstIndex(of: "="), let name = decoded(pair[..<equals]),
                let value = decoded(pair[pair.index(after: equals)...]),
                // A manifest sends the items of one name together.
                items.last?.name == name || !items.contains(where: { $0.name == name })
            else { return nil }
            items.append((name, value))
        }
        return items
    }

    private static func decoded(_ text: Substring) -> String? { text.replacing("+", with: " ").removingPercentEncoding }
}
