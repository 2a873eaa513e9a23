/// The document of `json-get`.
struct JSONDocument: Codable, Sendable {
    struct User: Codable, Sendable {
        var id: Int
        var name: String
        var admin: Bool
    }

    var users: [User]
    var padding: String

    /// The document as 1,024 bytes of JSON.
    static let text: String = {
        var text = #"{"users":["#
        var index = 0
        while text.utf8.count < 940 {
            text += (index == 0 ? "" : ",") + #"{"id":\#(index),"name":"user \#(index)","admin":false}"#
            index += 1
        }
        text += #"],"padding":""#
        return text + String(repeating: "x", count: 1024 - text.utf8.count - 2) + "\"}"
    }()
}
