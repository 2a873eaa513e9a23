import Foundation

extension URL {
    /// This URL with a query appended to its own, before the fragment; nil if the result is not a URL.
    ///
    /// AFNetworking puts the query after the fragment, so that it is lost, and adds an `&` to an empty query.
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
        // If Foundation must escape any character, it escapes every "%" of the URL again.
        let safe = PercentEscaping.repaired(query)
        return URL(string: "\(head)\(joint)\(safe)\(text[fragment...])", encodingInvalidCharacters: false)
    }
}
