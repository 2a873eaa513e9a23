/// A value of JSON (RFC 8259) that knows its place in the text, so that a mistake is reported by line and column.
///
/// Stricter than Foundation's parser on Linux, which accepts a comma before a closing bracket and a key twice.
struct JSONValue {
    enum Content {
        case null
        case bool(Bool)
        /// As it was written.
        case number(String)
        case string(String)
        case array([JSONValue])
        case object([Member])
    }

    struct Member {
        let key: String
        let position: JSONPosition
        let value: JSONValue
    }

    let content: Content
    let position: JSONPosition
}

/// A place in a text; both numbers begin at 1.
struct JSONPosition: Equatable {
    var line = 1
    /// In bytes of UTF-8.
    var column = 1
}

/// What is wrong with a text, and where.
struct JSONProblem: Error, Equatable {
    let text: String
    let position: JSONPosition
}
