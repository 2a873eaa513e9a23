import Foundation

extension URL {
    /// This URL with a query joined to the one it has, before the fragment; nil when that is no URL.
    ///
    /// AFNetworking puts the query after the fragment, which swallows it, and joins with `&` to an empty query.
    func appendingQuery(_ query: String) -> URL? {
        let text = absoluteString
        let fragment = text.firstIndex(of: "#") ?? text.endIndex
        let head = text[..<fragment]
        let joint: String
        if !head.utf8.contains(UInt8(ascii: "?")) {
            joint = "?"
        } else {
            joint = head.hasSuffix("?") || head.hasSuffix("&") ? "" : "&"
        }
        // Foundation, finding one character that it must escape, escapes every "%" of the URL again.
        let safe = PercentEscaping.repaired(query)
        return URL(string: "\(head)\(joint)\(safe)\(text[fragment...])", encodingInvalidCharacters: false)
    }
}
