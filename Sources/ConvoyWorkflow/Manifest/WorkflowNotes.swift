import ConvoyOperations
import ConvoySerialization
import Foundation

extension Workflow {
    /// Notes about parts of a manifest that probably do not have the intended effect, with the line numbers of the
    /// requests.
    package var notes: [String] {
        plan.requests.flatMap { request in request.notes.map { "\(name):\(request.line): \(request.id): \($0)" } }
    }
}

extension RequestPlan {
    fileprivate var notes: [String] {
        var notes: [String] = []
        if let retry, retry.count > 0, !RetryPolicy().idempotentMethods.contains(method) {
            notes.append("retry repeats a \(method) only if nothing of it was sent, because it may have had an effect")
        }
        var names = query.map(\.name) + query.flatMap(\.value.names)
        switch body {
        case .none, .text, .file: break
        case .json(let tree): names += tree.names
        case .form(let items): names += items.map(\.name)
        case .multipart(let parts): names += parts.map(\.name)
        }
        names += expectations.json.flatMap { $0.equals?.names ?? [] }
        for name in Set(names).sorted() where name.contains("${") {
            notes.append("the name \(quoted(name)) is used as it is, because only values have references")
        }
        let texts = templates.flatMap(\.pieces).compactMap { if case .literal(let text) = $0 { text } else { nil } }
        if let found = texts.lazy.compactMap(Self.mustache).first {
            notes.append("\(quoted(found)) is used as it is; a reference is ${NAME}")
        }
        return notes
    }

    /// Returns a placeholder in the syntax of Hurl, Postman, Bruno and Insomnia: `{{name}}`.
    private static func mustache(in text: String) -> String? {
        guard let start = text.range(of: "{{"),
            let end = text.range(of: "}}", range: start.upperBound..<text.endIndex)
        else { return nil }
        let name = text[start.upperBound..<end.lowerBound].trimmingCharacters(in: .whitespaces)
        let isName =
            !name.isEmpty
            && name.unicodeScalars.allSatisfy { $0.properties.isAlphabetic || "0123456789_-.$".unicodeScalars.contains($0) }
        return isName ? String(text[start.lowerBound..<end.upperBound]) : nil
    }
}

extension TreeTemplate {
    /// The names of all members.
    fileprivate var names: [String] {
        switch self {
        case .constant(let json): Self.names(of: json)
        case .text: []
        case .array(let elements): elements.flatMap(\.names)
        case .object(let members): members.flatMap { [$0.key] + $0.value.names }
        }
    }

    private static func names(of json: JSON) -> [String] {
        switch json {
        case .array(let values): values.flatMap(names)
        case .object(let object): object.members.flatMap { [$0.key] + names(of: $0.value) }
        default: []
        }
    }
}
