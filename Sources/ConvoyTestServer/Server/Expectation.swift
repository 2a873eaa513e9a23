/// A number of requests that a test has announced.
struct Expectation: Sendable {
    var method: String?
    var path: String
    var count: Int
    var condition: (@Sendable (RecordedRequest) -> Bool)?

    var description: String {
        "\(method ?? "any method") \(path)" + (condition == nil ? "" : " (with a condition)")
    }

    func isMet(by request: RecordedRequest) -> Bool {
        guard method == nil || method == request.method else { return false }
        if path.hasSuffix("*") {
            guard request.path.utf8.starts(with: path.dropLast().utf8) else { return false }
        } else {
            guard request.path == path else { return false }
        }
        return condition?(request) ?? true
    }
}
